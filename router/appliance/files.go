package appliance

import (
	"context"
	"fmt"
	"path/filepath"

	"signalbox/broker"
)

// watchFiles writes the identity of the data directory to the databases, which are open
// now, and starts to watch them.
func (a *Appliance) watchFiles(ctx context.Context) error {
	d := a.cfg.directory()
	if err := d.Register(ctx); err != nil {
		return err
	}
	w, err := d.Watch(ctx, a.cfg.DataCheckInterval, a.log, lockFile)
	if err != nil {
		return err
	}
	a.files = w
	a.undo.add(w.Close)
	a.addPart("files", func(context.Context) error { return a.damage() })
	return nil
}

// damage returns the damage that was found in a database, in a text for any caller; the
// log names the path and the remedy.
func (a *Appliance) damage() error {
	path, err := a.files.Damage()
	if err == nil {
		return nil
	}
	msg := fmt.Sprintf("%s is damaged; the service's log says how to go on", filepath.Base(path))
	return &broker.Error{Kind: broker.Unavailable, Op: "check files", Msg: msg, Err: err}
}

// Lost yields an error when a file of the data directory was deleted or replaced while
// the service runs. The service must then be stopped, because what it writes is lost.
func (a *Appliance) Lost() <-chan error { return a.files.Lost() }

// Reload reads the certificates again, as after a renewal. If they are invalid that is
// logged, and the previous ones are kept.
func (a *Appliance) Reload() {
	a.server.ReloadCertificates()
	if a.broker != nil {
		a.broker.ReloadCertificates()
	}
}
