package handlers

import (
	"context"
	"errors"
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
