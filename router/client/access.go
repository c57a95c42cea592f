package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"signalbox/broker"
)

// Access is the access control of one broker of the service.
type Access struct {
	client *Client
	id     string // "" is the embedded broker
}

var _ broker.AccessTransfer = (*Access)(nil)

// Access returns the access control of the broker with this id, "" for the
// embedded one.
func (c *Client) Access(id string) *Access { return &Access{client: c, id: id} }

// ImportAccess imports a document into the broker, completely or not at all.
func (a *Access) ImportAccess(ctx context.Context, document io.Reader, replace bool) (report broker.ImportReport, err error) {
	body, err := io.ReadAll(document)
	if err != nil {
		return report, err
	}
	path, err := a.path(ctx)
	if err != nil {
		return report, err
	}
	path += "/access/import?replace=" + strconv.FormatBool(replace)
	answer, err := a.client.call(ctx, http.MethodPost, path, body)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(answer, &report)
}

// ExportAccess returns the document, password hashes included.
func (a *Access) ExportAccess(ctx context.Context) ([]byte, error) {
	path, err := a.path(ctx)
	if err != nil {
		return nil, err
	}
	return a.client.call(ctx, http.MethodGet, path+"/access/export", nil)
}

// found is a broker, and the project that contains it.
type found struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	project string
}

func (f found) path() string { return brokersPath(f.project) + "/" + url.PathEscape(f.ID) }

// path returns the path of the broker, which it looks up among those that the caller
// may see.
func (a *Access) path(ctx context.Context) (string, error) {
	all, err := a.client.brokers(ctx)
	if err != nil {
		return "", err
	}
	var fit []found
	for _, b := range all {
		if b.ID == a.id || a.id == "" && b.Type == "on-premise-setup" {
			fit = append(fit, b)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0].path(), nil
	case len(fit) > 1:
		return "", errors.New("there are several embedded brokers; name one by its id: " + names(fit))
	case a.id == "":
		return "", errors.New("the caller sees no embedded broker; name a broker by its id: " + names(all))
	}
	return "", fmt.Errorf("the caller sees no broker %q; there are: %s", a.id, names(all))
}

// brokers returns the brokers of all projects of the caller.
func (c *Client) brokers(ctx context.Context) ([]found, error) {
	var me struct {
		Projects []struct {
			ID string `json:"id"`
		} `json:"projects"`
	}
	if err := c.get(ctx, "/api/auth/me", &me); err != nil {
		return nil, err
	}
	var all []found
	for _, p := range me.Projects {
		var list []found
		if err := c.get(ctx, brokersPath(p.ID), &list); err != nil {
			return nil, err
		}
		for _, b := range list {
			b.project = p.ID
			all = append(all, b)
		}
	}
	return all, nil
}

func names(list []found) string {
	if len(list) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(list))
	for _, b := range list {
		parts = append(parts, b.ID+" ("+b.Name+")")
	}
	return strings.Join(parts, ", ")
}
