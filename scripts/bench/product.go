//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// product is an instance of signalbox with a data directory of its own.
type product struct {
	*child
	*api
	binary, dir string
	password    string // of the root administrator
	access      access
	url, mqtt   string   // where it serves: base URL of the API, host:port of the broker
	clients     string   // URL of the embedded broker's clients
	settings    []string // added to the environment that every instance has
	project     string   // URL of the default project
	root        string   // token of the root administrator
	config      string   // its configuration file; "" for none
	brokerless  bool     // it has no embedded broker
}

const rootEmail = "root@example.org"

// newProduct fills a fresh data directory with that many clients, starts the product
// and creates a token.
func (b *bench) newProduct(ctx context.Context, clients, iterations int) (*product, error) {
	p, err := b.emptyProduct()
	if err != nil {
		return nil, err
	}
	if p.access, err = writeAccess(p.dir+".json", clients, iterations); err != nil {
		return nil, err
	}
	if err := b.startProduct(ctx, p); err != nil {
		return nil, err
	}
	return p, p.makeToken(ctx)
}

// startProduct imports the instance's access-control configuration and starts
// it.
func (b *bench) startProduct(ctx context.Context, p *product) error {
	if err := b.importAccess(ctx, p); err != nil {
		return err
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	b.started = append(b.started, p)
	return nil
}

// importAccess fills a data directory with the binary's own import command.
func (b *bench) importAccess(ctx context.Context, p *product) error {
	_, err := b.timedImport(ctx, p)
	return err
}

// timedImport is importAccess, and returns the processor time of the command, in µs.
func (b *bench) timedImport(ctx context.Context, p *product) (float64, error) {
	cmd := exec.CommandContext(ctx, p.binary, "import", "dynsec", p.access.file)
	cmd.Env = p.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("import %s: %w: %s", p.access.file, err, out)
	}
	return micros(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), nil
}

// emptyProduct prepares an instance that has never run.
func (b *bench) emptyProduct() (*product, error) {
	p := &product{binary: b.binary, dir: b.path("product"), password: rand.Text(), api: newAPI()}
	return p, os.Mkdir(p.dir, 0o700)
}

// largeProduct returns the instance with many clients that several measurements share;
// smallProduct returns the one with few.
func (b *bench) largeProduct(ctx context.Context) (_ *product, err error) {
	if b.large == nil {
		b.large, err = b.newProduct(ctx, b.many, 0)
	}
	return b.large, err
}

func (b *bench) smallProduct(ctx context.Context) (_ *product, err error) {
	if b.small == nil {
		b.small, err = b.newProduct(ctx, b.few, 0)
	}
	return b.small, err
}

// environ returns the settings of the product: everything else has its default.
func (p *product) environ() []string {
	return append([]string{
		"SIGNALBOX_DATA_DIR=" + p.dir,
		"SIGNALBOX_HTTP_LISTEN=127.0.0.1:0",
		"SIGNALBOX_BROKER_LISTEN=127.0.0.1:0",
		"SIGNALBOX_ADMIN_EMAIL=" + rootEmail,
		"SIGNALBOX_ADMIN_PASSWORD=" + p.password,
	}, p.settings...)
}

// start starts it and waits for the first 200 of /readyz.
func (p *product) start(ctx context.Context) (err error) {
	args := []string{"serve"}
	if p.config != "" {
		args = append(args, "--config", p.config)
	}
	p.child, err = launch(ctx, p.environ(), p.readAddresses, p.binary, args...)
	if err != nil {
		return err
	}
	return p.call(ctx, http.MethodGet, p.url+"/readyz", "", http.StatusOK, io.Discard)
}

// readAddresses reads the addresses from the lines that the product prints.
func (p *product) readAddresses(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return false
	}
	switch fields[0] {
	case "API":
		p.url = fields[1]
	case "MQTT":
		p.mqtt = strings.TrimPrefix(fields[1], "mqtt://")
	}
	return fields[0] == "MQTT" || p.brokerless && fields[0] == "API"
}

// restart starts a new process on the same data, and returns the time from the start of
// the process to the first 200.
func (p *product) restart(ctx context.Context) (time.Duration, error) {
	if err := p.stop(); err != nil {
		return 0, err
	}
	base := p.url
	began := time.Now()
	err := p.start(ctx)
	took := time.Since(began)
	p.clients = strings.Replace(p.clients, base, p.url, 1)
	return took, err
}

// makeToken logs in as root and creates a project token.
func (p *product) makeToken(ctx context.Context) error {
	var login struct{ Token string }
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, rootEmail, p.password)
	if err := p.decode(ctx, http.MethodPost, p.url+"/api/auth/login", body, &login); err != nil {
		return err
	}
	p.token, p.root = login.Token, login.Token
	var projects, brokers []struct{ ID string }
	if err := p.decode(ctx, http.MethodGet, p.url+"/api/projects", "", &projects); err != nil {
		return err
	}
	p.project = p.url + "/api/projects/" + projects[0].ID
	if p.brokerless {
		return nil
	}
	if err := p.decode(ctx, http.MethodGet, p.project+"/brokers", "", &brokers); err != nil {
		return err
	}
	p.clients = p.project + "/brokers/" + brokers[0].ID + "/clients"
	var made struct{ Token string }
	err := p.decode(ctx, http.MethodPost, p.project+"/tokens", `{"name":"bench","role":"editor","type":"unrestricted"}`, &made)
	p.token = made.Token
	return err
}

// api calls an HTTP API with a token, over persistent connections.
type api struct {
	token string
	http  *http.Client
}

func newAPI() *api {
	return &api{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
}

// call makes a request, checks the status and copies the body of the response.
func (a *api) call(ctx context.Context, method, url, body string, status int, to io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != status {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12)) //nolint:errcheck // an incomplete text is of use as well
		return fmt.Errorf("%s %s: got %s: %s", method, url, resp.Status, said)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}

func (a *api) get(ctx context.Context, url string) call {
	return func(int, int) error { return a.call(ctx, http.MethodGet, url, "", http.StatusOK, io.Discard) }
}

func (a *api) decode(ctx context.Context, method, url, body string, into any) error {
	var answer bytes.Buffer
	if err := a.call(ctx, method, url, body, http.StatusOK, &answer); err != nil {
		return err
	}
	return json.Unmarshal(answer.Bytes(), into)
}
