package handlers

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"time"

	"signalbox/broker"
)

// BrokerInfo is what a broker reports about itself.
type BrokerInfo struct {
	ID               string             `json:"id" doc:"Id of the broker connection." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
	URL              string             `json:"url" doc:"URL with which the service connects." example:"mqtts://broker.example:8883"`
	Name             string             `json:"name" doc:"Name of the connection." example:"Hall 3"`
	ProjectID        string             `json:"project_id" doc:"Id of the project." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	SysTopics        broker.SysTopics   `json:"sysTopics" doc:"The latest sample of the $SYS topics."`
	SysTopicsHistory []broker.SysTopics `json:"sysTopicsHistory" doc:"Earlier samples: one every 10 seconds, at most the last 60."`
	IsConnected      bool               `json:"isConnected" doc:"True if the broker is connected. If not, the topics are empty." example:"true"`
	LicenseInfo      broker.License     `json:"licenseInfo" doc:"Licence of the broker."`
}

// GetBrokerInfoRequest names a broker.
type GetBrokerInfoRequest struct{ BrokerPath }

// firstConnect bounds how long the info waits for a connection in progress.
const firstConnect = 5 * time.Second

// GetBrokerInfo connects to the broker, if necessary, and returns what it reports. For
// a broker that cannot be reached isConnected is false.
func (a *API) GetBrokerInfo(ctx context.Context, r *GetBrokerInfoRequest) (BrokerInfo, error) {
	info := BrokerInfo{ID: r.row.ID, URL: r.row.URL, Name: r.row.Name, ProjectID: r.row.ProjectID,
		SysTopics: broker.SysTopics{Topics: map[string]string{}}, SysTopicsHistory: []broker.SysTopics{},
		LicenseInfo: openLicense(nil)}
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return info, nil
	}
	if s := b.Status(); !s.Connected && s.Error == "" {
		waiting, cancel := context.WithTimeout(ctx, firstConnect)
		defer cancel()
		_ = b.Ready(waiting) // the status below shows the outcome
	}
	if info.IsConnected = b.Status().Connected; !info.IsConnected {
		return info, nil
	}
	return info, info.fill(ctx, b)
}

// fill reads the info of a connected broker.
func (info *BrokerInfo) fill(ctx context.Context, b broker.Broker) error {
	now, history, err := b.SysTopics(ctx)
	if err != nil {
		return err
	}
	info.SysTopics = now
	info.SysTopicsHistory = append(info.SysTopicsHistory, history...)
	license, err := b.GetLicense(ctx)
	if broker.KindOf(err) == broker.Unsupported {
		license, err = openLicense(b.Capabilities()), nil
	}
	info.LicenseInfo = license
	return err
}

// openLicense is the licence of a broker that needs none.
func openLicense(capabilities []broker.Capability) broker.License {
	l := broker.License{Plan: "open-source", Edition: "open-source", Features: []string{}}
	for _, c := range capabilities {
		l.Features = append(l.Features, string(c))
	}
	return l
}

// GetLicenseRequest names a broker.
type GetLicenseRequest struct{ BrokerPath }

// GetLicense returns a broker's licence.
func (a *API) GetLicense(ctx context.Context, r *GetLicenseRequest) (broker.License, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return broker.License{}, err
	}
	return b.GetLicense(ctx)
}

// ListListenersRequest names a broker.
type ListListenersRequest struct{ BrokerPath }

// ListListeners lists the listeners of a broker.
func (a *API) ListListeners(ctx context.Context, r *ListListenersRequest) (List[broker.Listener], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Listener]{}, err
	}
	listeners, err := b.ListListeners(ctx)
	return listOf(listeners), err
}

// ListenerCertificateRequest names a listener of a broker.
type ListenerCertificateRequest struct {
	BrokerPath
	ListenerID string `path:"listenerId" doc:"Number of the listener, as listListeners returns it."`
}

// GetListenerCertificate returns the certificates that a listener presents to clients.
func (a *API) GetListenerCertificate(ctx context.Context, r *ListenerCertificateRequest) (File, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return File{}, err
	}
	id, _ := strconv.Atoi(r.ListenerID) // no listener has the number 0
	chain, err := b.ListenerCertificate(ctx, id)
	return File{Name: "listener-" + strconv.Itoa(id) + ".pem", Size: int64(len(chain)), Content: io.NopCloser(bytes.NewReader(chain))}, err
}
