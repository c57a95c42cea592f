package datadir

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"signalbox/broker/storage"
)

// clusterDatabase is the database of a cluster's node. It is consistent only with the
// broker's database.
const clusterDatabase = "cluster/cluster.db"

// Forget makes the next start create databases anew that were lost, or removed on
// purpose. It refuses existing ones; it removes nothing.
func (d Directory) Forget(ctx context.Context, names []string) error {
	l, err := d.lookFor(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !l.found[name].Empty {
			return fmt.Errorf("%s exists in the data directory %s: move it away first, since this command removes nothing", name, d.Path)
		}
	}
	for _, pair := range [][2]string{{brokerDatabase, clusterDatabase}, {clusterDatabase, brokerDatabase}} {
		if slices.Contains(names, pair[0]) && !l.found[pair[1]].Empty {
			return fmt.Errorf("%s holds what the broker has promised its cluster together with %s: move both away (%s with its folder), and forget both", pair[0], pair[1], clusterDatabase)
		}
	}
	i := l.identity
	if i == nil {
		if i, err = d.named(l); err != nil {
			return err
		}
	}
	i.Databases = slices.DeleteFunc(slices.Clone(i.Databases), func(name string) bool { return slices.Contains(names, name) })
	return i.save(d.Path)
}

// named returns an identity for a directory that has none.
func (d Directory) named(l contents) (*identity, error) {
	i := newIdentity()
	id, err := d.agreed(l)
	if err != nil {
		return nil, err
	}
	if id != "" {
		i.ID = id
	}
	return i, nil
}

// Adopt writes the identity of this directory to databases, whichever they had.
func (d Directory) Adopt(ctx context.Context, names []string) error {
	l, err := d.lookFor(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch c := l.found[name]; {
		case c.Empty:
			return fmt.Errorf("%s does not exist in the data directory %s, or is empty: put it there first", name, d.Path)
		case c.Identity.Name != "" && c.Identity.Name != name:
			return d.misnamed(name, c.Identity.Name)
		}
	}
	i := l.identity
	if i == nil {
		i = newIdentity()
	}
	for _, name := range names {
		if err := storage.Identify(ctx, d.path(name), storage.Identity{Directory: i.ID, Name: name}); err != nil {
			return err
		}
		if !i.has(name) {
			i.Databases = append(slices.Clone(i.Databases), name)
		}
	}
	return i.save(d.Path)
}

// lookFor examines the directory and refuses names that are not databases of the
// service.
func (d Directory) lookFor(ctx context.Context, names []string) (contents, error) {
	for _, name := range names {
		if !slices.Contains(d.Databases, name) {
			return contents{}, fmt.Errorf("%s is not a database of the service; these are: %s", name, strings.Join(d.Databases, ", "))
		}
	}
	return d.read(ctx)
}
