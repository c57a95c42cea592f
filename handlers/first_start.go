package handlers

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/db"
	"signalbox/handlers/auth"
)

// Admin is the configuration under "admin.": the administrator that the first start
// creates. It has no effect later.
type Admin struct {
	Email    string        `mapstructure:"email"`
	Password broker.Secret `mapstructure:"password"`
}

// DefaultAdmin returns the values of an empty configuration.
func DefaultAdmin() Admin { return Admin{Email: "admin@localhost"} }

// Validate returns an error that names the keys with invalid values.
func (a Admin) Validate() error {
	var errs []error
	if !strings.Contains(a.Email, "@") {
		errs = append(errs, errors.New("admin.email: must be an email address"))
	}
	if n := len(a.Password); n > 0 && n < 8 {
		errs = append(errs, errors.New("admin.password: must have at least 8 characters"))
	}
	return errors.Join(errs...)
}

// EmbeddedName is the name of the embedded broker's record, and DefaultProject that of
// its project.
const (
	EmbeddedName   = "embedded"
	defaultProject = "default"
)

// FirstStart creates the root administrator and the project "default" that it
// owns, unless they were created before. A password that is not configured is
// generated; keep is called with it before anything is stored.
func (a *API) FirstStart(ctx context.Context, admin Admin, keep func(password string) error) error {
	if done, err := a.DB.Initialised(ctx); done || err != nil {
		return err
	}
	if admin.Password == "" {
		admin.Password = broker.Secret(auth.NewPassword())
		if err := keep(string(admin.Password)); err != nil {
			return err
		}
	}
	hash, err := a.Auth.HashPassword(ctx, string(admin.Password))
	if err != nil {
		return err
	}
	now := a.Now()
	ctx, _ = db.WithAudit(ctx, db.AuditEvent{Time: now, ActorKind: "system", Operation: "firstStart", Object: admin.Email})
	root := db.User{ID: newID(), Email: admin.Email, FirstName: "Administrator", PasswordHash: hash,
		Verified: true, Root: true, CreatedAt: now, UpdatedAt: now}
	project := db.Project{ID: newID(), Name: defaultProject, OwnerID: root.ID, CreatedAt: now, UpdatedAt: now}
	return a.DB.Initialise(ctx, root, project, nil)
}

// AdoptEmbedded adds the broker in this process to the pool under its record, which it
// creates in the default project if there is none yet. url is the address for clients.
func (a *API) AdoptEmbedded(ctx context.Context, b broker.Broker, url string) error {
	row, err := a.embeddedRow(ctx, url)
	if err != nil {
		return err
	}
	a.Embedded, a.embeddedProject = row.ID, row.ProjectID
	a.Brokers.Pin(row.ID, b)
	if row.URL == url {
		return nil
	}
	row.URL, row.UpdatedAt = url, a.Now()
	return a.DB.UpdateBroker(ctx, row)
}

func (a *API) embeddedRow(ctx context.Context, url string) (db.Broker, error) {
	rows, err := a.DB.AllBrokers(ctx)
	if err != nil {
		return db.Broker{}, err
	}
	if i := slices.IndexFunc(rows, isOnPremise); i >= 0 {
		return rows[i], nil
	}
	projectID, err := a.embeddedHome(ctx)
	if err != nil {
		return db.Broker{}, err
	}
	row, err := onPremiseRow(projectID, url, a.Now())
	if err != nil {
		return db.Broker{}, err
	}
	return row, a.DB.CreateBroker(ctx, row)
}

// embeddedHome returns the project for the embedded broker: an administrator's project
// with the default name, created again if it was deleted. A project of another user
// with this name does not count.
func (a *API) embeddedHome(ctx context.Context) (projectID string, err error) {
	_, roots, err := a.DB.ListRoots(ctx, 0, math.MaxInt32)
	if err != nil {
		return "", err
	}
	projects, err := a.DB.AllProjects(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range projects {
		owns := func(u db.User) bool { return u.ID == p.OwnerID }
		if p.Name == defaultProject && slices.ContainsFunc(roots, owns) {
			return p.ID, nil
		}
	}
	now := a.Now()
	p := db.Project{ID: newID(), Name: defaultProject, OwnerID: roots[0].ID, CreatedAt: now, UpdatedAt: now}
	return p.ID, a.DB.CreateProject(ctx, p)
}
