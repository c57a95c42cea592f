package console

// listenersView is the listeners of a broker with their certificates.
type listenersView struct {
	frame
	Listeners part[[]listenerRecord]
}

// listenerRecord is an entry of listListeners.
type listenerRecord struct {
	ID                 int    `json:"id"`
	Port               int    `json:"port"`
	BindAddress        string `json:"bindAddress"`
	Protocol           string `json:"protocol"`
	TLS                bool   `json:"tls"`
	RequireCertificate bool   `json:"requireCertificate"`
	Certs              []struct {
		ID       string `json:"certificate_id"`
		Name     string `json:"name"`
		Filename string `json:"filename"`
	} `json:"certs"`
}

func viewListeners(q *request) (view, error) {
	v := &listenersView{}
	var g parts
	load(&g, q, &v.Listeners, "listListeners", nil)
	g.wait()
	return v, nil
}
