package datadir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/broker/storage"
)

// The databases that indicate whether a directory without an identity was used before.
const (
	serviceDatabase = "signalbox.db"
	brokerDatabase  = "broker.db"
)

// Directory is a data directory and the databases to open in it, by their names below
// it. HadBroker reports whether the service's own database knows an embedded broker; it
// is called only for a directory without an identity.
type Directory struct {
	Path      string
	Databases []string
	HadBroker func(context.Context) (bool, error)
}

// contents is what a directory contains.
type contents struct {
	identity *identity // nil for none
	found    map[string]storage.Content
}

// path returns the path of a database.
func (d Directory) path(name string) string { return filepath.Join(d.Path, filepath.FromSlash(name)) }

// Check refuses a directory without a database that it had, or with one that carries
// the identity of another directory. It changes nothing. The errors are sentences that
// name the files and the remedy.
func (d Directory) Check(ctx context.Context) error {
	l, err := d.read(ctx)
	if err != nil {
		return err
	}
	missing, err := d.missing(ctx, l)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return d.refuseMissing(missing)
	}
	return d.refuseForeign(l)
}

func (d Directory) read(ctx context.Context) (l contents, err error) {
	if l.identity, err = load(d.Path); err != nil {
		return l, err
	}
	l.found = map[string]storage.Content{}
	for _, name := range d.Databases {
		if l.found[name], err = storage.Inspect(ctx, d.path(name)); err != nil {
			return l, err
		}
	}
	return l, nil
}

// missing returns the databases that the directory had and no longer has.
func (d Directory) missing(ctx context.Context, l contents) (names []string, err error) {
	for _, name := range d.Databases {
		if !l.found[name].Empty {
			continue
		}
		had := l.identity.has(name)
		if l.identity == nil {
			if had, err = d.hadBefore(ctx, name, l); err != nil {
				return nil, err
			}
		}
		if had {
			names = append(names, name)
		}
	}
	return names, nil
}

// hadBefore reports whether a directory without an identity, from a release before
// identities, must have had a database. An import before the first start creates
// broker.db alone.
func (d Directory) hadBefore(ctx context.Context, name string, l contents) (bool, error) {
	switch {
	case name == serviceDatabase:
		return d.wasUsed(l), nil
	case l.found[serviceDatabase].Empty || d.HadBroker == nil:
		return false, nil
	case name == brokerDatabase:
		return d.HadBroker(ctx)
	}
	info, err := os.Stat(d.path(name))
	if err != nil || info.Size() > 0 { // from a release before this database
		return false, nil
	}
	return d.HadBroker(ctx)
}

// wasUsed reports whether the directory has files that a first start creates after the
// service's own database.
func (d Directory) wasUsed(l contents) bool {
	for name, c := range l.found {
		if name != brokerDatabase && !c.Empty {
			return true
		}
	}
	_, err := os.Stat(filepath.Join(d.Path, "secret.key"))
	return err == nil
}

func (d Directory) refuseMissing(names []string) error {
	verb, them, they, files := "is", "it", "it", "a new one"
	if len(names) > 1 {
		verb, them, they, files = "are", "them", "they", "new ones"
	}
	list := strings.Join(names, " and ")
	return fmt.Errorf("%s %s missing or empty in the data directory %s, which had %s: put %s back from a backup; or, to go on without what %s held, run \"signalbox data forget %s\" and start again, which creates %s",
		list, verb, d.Path, them, them, they, strings.Join(names, " "), files)
}

// refuseForeign names the databases that do not belong to the directory.
func (d Directory) refuseForeign(l contents) error {
	id, err := d.agreed(l)
	if err != nil {
		return err
	}
	for _, name := range d.Databases {
		if err := d.refuseForeignDatabase(name, id, l); err != nil {
			return err
		}
	}
	return nil
}

func (d Directory) refuseForeignDatabase(name, id string, l contents) error {
	c := l.found[name]
	switch carried := c.Identity; {
	case c.Empty:
		return nil
	case carried.Name != "" && carried.Name != name:
		return d.misnamed(name, carried.Name)
	case carried.Directory == "" && l.identity.has(name):
		return fmt.Errorf("%s in the data directory %s carries no identity, so it is not the file that was there: put that back; or, if this is an older copy of it, run \"signalbox data adopt %s\" and start again", name, d.Path, name)
	case carried.Directory != "" && carried.Directory != id:
		return fmt.Errorf("%s in the data directory %s belongs to another data directory: put the one of this directory back; or, if this one is to be used here from now on, run \"signalbox data adopt %s\" and start again", name, d.Path, name)
	}
	return nil
}

func (d Directory) misnamed(name, own string) error {
	return fmt.Errorf("%s in the data directory %s is a copy of %s: put the right file back", name, d.Path, own)
}

// agreed returns the identity of the directory: that of its file, or the one in its
// databases, "" for none.
func (d Directory) agreed(l contents) (id string, err error) {
	if l.identity != nil {
		return l.identity.ID, nil
	}
	var from string
	for _, name := range d.Databases {
		carried := l.found[name].Identity.Directory
		switch {
		case carried == "":
		case id == "":
			id, from = carried, name
		case carried != id:
			return "", fmt.Errorf("%s and %s in the data directory %s belong to different data directories: put files back that belong together; or, if they are to be used together from now on, run \"signalbox data adopt %s\" and start again", from, name, d.Path, strings.Join(d.Databases, " "))
		}
	}
	return id, nil
}

// Register writes the directory's identity to every existing database, and the
// databases to the identity. It is called when the databases were opened, and after
// Check.
func (d Directory) Register(ctx context.Context) error {
	l, err := d.read(ctx)
	if err != nil {
		return err
	}
	i, changed := l.identity, false
	if i == nil {
		if i, err = d.named(l); err != nil {
			return err
		}
		changed = true
	}
	for _, name := range d.Databases {
		if l.found[name].Empty {
			continue
		}
		if want := (storage.Identity{Directory: i.ID, Name: name}); l.found[name].Identity != want {
			if err := storage.Identify(ctx, d.path(name), want); err != nil {
				return err
			}
		}
		if !i.has(name) {
			i.Databases, changed = append(slices.Clone(i.Databases), name), true
		}
	}
	if !changed {
		return nil
	}
	return i.save(d.Path)
}
