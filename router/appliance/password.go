package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"signalbox/db"
	"signalbox/handlers/audit"
	"signalbox/handlers/auth"
)

// ErrNoUser means that no user has the email address.
var ErrNoUser = errors.New("there is no user with this email address")

// errSharedUsers is why the users of a node cannot be changed by a command.
var errSharedUsers = errors.New("the users are shared by the nodes of a cluster (cluster.share_data), which a command at one of them cannot change: " +
	"have another root administrator set the password while the cluster runs; if there is none, let this node leave the cluster, or dissolve that, over MQTT, and repeat the command")

// minPassword is the least number of characters of a password, as in the API.
const minPassword = 8

// ResetPassword replaces the password of a user while the service does not run, and ends
// the sessions of the user. An empty password is generated. It returns the password that
// was stored. unblock lets a user log in again whose log-in was blocked.
func ResetPassword(ctx context.Context, c Config, email, password string, unblock bool) (stored string, err error) {
	if password == "" {
		password = auth.NewPassword()
	}
	if utf8.RuneCountInString(password) < minPassword {
		return "", fmt.Errorf("the password must have at least %d characters", minPassword)
	}
	path := filepath.Join(c.DataDir, databaseFile)
	if _, err := os.Stat(path); err != nil { // before the lock, which creates the directory
		return "", fmt.Errorf("there is no database in the data_dir %s; give that of the service, and run the command as its user (%w)", c.DataDir, err)
	}
	return password, locked(c, func() error {
		if err := errors.Join(checkDatabases(ctx, c), c.directory().Check(ctx)); err != nil {
			return err
		}
		return c.storePassword(ctx, path, email, password, unblock)
	})
}

// storePassword stores the password, together with a row of the audit log.
func (c Config) storePassword(ctx context.Context, path, email, password string, unblock bool) (err error) {
	d, err := db.Open(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	if d.IsShared() {
		return errSharedUsers
	}
	u, err := d.UserByEmail(ctx, email)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return fmt.Errorf("%w: %s", ErrNoUser, email)
	case err != nil:
		return err
	case u.SSOType != "":
		return fmt.Errorf("%s is authenticated elsewhere (%s) and has no password here", u.Email, u.SSOType)
	case !u.Verified && !unblock:
		return fmt.Errorf("the log-in of %s is blocked; add --unblock to allow it again", u.Email)
	}
	now := time.Now()
	a := auth.New(d, auth.Config{}, time.Now, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, a.Close(ctx)) }()
	hash, err := a.HashPassword(ctx, password)
	if err != nil {
		return err
	}
	ctx, _ = audit.Start(ctx, audit.Event{Time: now, ActorKind: "command", ActorName: systemUser(), Operation: "resetPassword", Object: u.Email})
	allowed := true
	return d.UpdateUser(ctx, db.UserUpdate{ID: u.ID, PasswordHash: &hash, Verified: &allowed, UpdatedAt: now})
}
