package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router"
	"signalbox/router/client"
)

// overview is the state of a service and of the brokers and clusters that the caller may
// see.
type overview struct {
	URL       string         `json:"url"`
	Version   string         `json:"version"`
	Ready     bool           `json:"ready"`
	Brokers   []brokerState  `json:"brokers"`
	Clusters  []clusterState `json:"clusters"`
	Attention []string       `json:"attention"`
}

type brokerState struct {
	Project   string `json:"project"`
	Name      string `json:"name"`
	URL       string `json:"url"`
	Connected bool   `json:"connected"`
	Error     string `json:"error"`

	id, caCert, clientCert string
}

type clusterState struct {
	Project string `json:"project"`
	Name    string `json:"name"`
	Leader  bool   `json:"leader"`
	Error   string `json:"error"`
}

// statusCommand shows the state of a service at a glance.
func (t *tree) statusCommand() *cobra.Command {
	p, f := &place{}, format{}
	cmd := &cobra.Command{Use: "status", Short: "Show the service, its brokers and its clusters, and what needs attention", Args: exactly(0), GroupID: group,
		Long: wrap("Shows the version of the service, whether it is ready, and the state of the brokers and clusters that the caller may see, with the cause where one is down. The exit code is 6 if anything is down.")}
	cmd.Flags().StringVar(&p.project, "project", "", "`NAME` or id of the only project to show")
	f.add(cmd.Flags(), &router.Operation{})
	p.connection.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		out, err := f.printer(cmd.OutOrStdout(), &router.Operation{ID: "status"})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
		defer cancel()
		s, err := t.connect(&p.connection)
		if err != nil {
			return err
		}
		o, err := s.overview(ctx, p.project)
		if err != nil {
			return f.failed(err)
		}
		if err := out.overview(o); err != nil || len(o.Attention) == 0 {
			return err
		}
		return &failure{code: CodeUnavailable, err: fmt.Errorf("%s", printable(strings.Join(o.Attention, "; ")))}
	}
	return cmd
}

// overview asks for the state of the service and of each project, or of one.
func (s *session) overview(ctx context.Context, project string) (*overview, error) {
	o := &overview{URL: s.URL, Brokers: []brokerState{}, Clusters: []clusterState{}, Attention: []string{}}
	if err := s.readiness(ctx, o); err != nil {
		return nil, err
	}
	return o, s.eachProject(ctx, project, func(one entry) error {
		brokers, err := s.brokerStates(ctx, one)
		if err != nil {
			return err
		}
		for _, b := range brokers {
			if !b.Connected {
				o.Attention = append(o.Attention, fmt.Sprintf("broker %s of project %s is not connected: %s", b.Name, one.Name, reason(b.Error)))
			}
		}
		o.Brokers = append(o.Brokers, brokers...)
		return s.clusterStates(ctx, o, one)
	})
}

// eachProject calls do for each project of the caller, or for one.
func (s *session) eachProject(ctx context.Context, project string, do func(entry) error) error {
	if project != "" {
		id, err := s.idOf(ctx, "/api/projects/{projectId}", "projectId", project)
		if err != nil {
			return err
		}
		project = id
	}
	var projects []entry
	if err := s.get(ctx, "/api/projects", nil, &projects); err != nil {
		return err
	}
	for _, one := range projects {
		if project != "" && one.ID != project {
			continue
		}
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}

// readiness asks for the version, and whether the service is ready.
func (s *session) readiness(ctx context.Context, o *overview) error {
	if err := s.get(ctx, "/healthz", nil, o); err != nil {
		return err
	}
	err := s.get(ctx, "/readyz", nil, o)
	if answer, ok := errors.AsType[*client.Error](err); ok {
		o.Attention = append(o.Attention, answer.Message)
		return nil
	}
	o.Ready = err == nil
	return err
}

// brokerStates returns the state of the brokers of a project.
func (s *session) brokerStates(ctx context.Context, project entry) (states []brokerState, err error) {
	var list []struct {
		ID, Name, URL string
		CACert        string `json:"ca_cert"`
		ClientCert    string `json:"client_cert"`
		Status        struct {
			Connected bool
			Error     string
		}
	}
	if err := s.get(ctx, "/api/projects/"+url.PathEscape(project.ID)+"/brokers", nil, &list); err != nil {
		return nil, err
	}
	for _, b := range list {
		states = append(states, brokerState{Project: project.Name, Name: b.Name, URL: b.URL, Connected: b.Status.Connected,
			Error: b.Status.Error, id: b.ID, caCert: b.CACert, clientCert: b.ClientCert})
	}
	return states, nil
}

// reason returns a cause, also where none is known.
func reason(text string) string {
	if text == "" {
		return "the cause is not known yet"
	}
	return text
}

func (s *session) clusterStates(ctx context.Context, o *overview, project entry) error {
	var list []struct {
		ClusterName string `json:"clustername"`
		Data        struct {
			State   int
			Message string `json:"errmsg"`
			Warning string
		}
		Error struct{ Message string }
	}
	if err := s.get(ctx, "/api/projects/"+url.PathEscape(project.ID)+"/clusters/status", nil, &list); err != nil {
		return err
	}
	const leader = 3
	for _, c := range list {
		state := clusterState{Project: project.Name, Name: c.ClusterName, Leader: c.Data.State == leader, Error: c.Error.Message + c.Data.Message}
		if o.Clusters = append(o.Clusters, state); !state.Leader || state.Error != "" {
			o.Attention = append(o.Attention, fmt.Sprintf("cluster %s of project %s: %s", state.Name, project.Name, reason(state.Error)))
		}
		if c.Data.Warning != "" {
			o.Attention = append(o.Attention, fmt.Sprintf("cluster %s of project %s: %s", state.Name, project.Name, c.Data.Warning))
		}
	}
	return nil
}

// overview prints the state of a service.
func (p *printer) overview(o *overview) error {
	if p.format != asTable && p.format != asNames {
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		return p.response(strings.NewReader(string(text)))
	}
	if p.format == asNames {
		for _, b := range o.Brokers {
			if err := p.line(printable(b.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	return o.write(p.w)
}

// write prints the state for people.
func (o *overview) write(w io.Writer) error {
	t := newTable(w, nil, false)
	ready := map[bool]string{true: "ready", false: "not ready"}[o.Ready]
	t.cells("service", printable(o.URL), printable(o.Version), ready)
	for _, b := range o.Brokers {
		state := "connected"
		if !b.Connected {
			state = "not connected: " + printable(reason(b.Error))
		}
		t.cells("broker", printable(b.Project+"/"+b.Name), printable(b.URL), state)
	}
	for _, c := range o.Clusters {
		state := "has a leader"
		if !c.Leader || c.Error != "" {
			state = printable(reason(c.Error))
		}
		t.cells("cluster", printable(c.Project+"/"+c.Name), "", state)
	}
	return t.flush()
}
