package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// SharedKeyID is what a key of the database is sealed for by the caller, with the ID of the key behind
// it.
const SharedKeyID = "shared-key:"

// Bounds of the keys that a copy stores.
const (
	maxSharedKeys = 32
	sharedKeyTime = 2 * time.Hour // how long one is kept before and after its use; what a join has replaced can be restored for an hour
)

// knownByOthers stands for the index of the last removal, if nodes of a former cluster know the key.
const knownByOthers = -1

// ErrNoKey means that this copy does not have the key with which a secret is, or is to be, sealed.
var ErrNoKey = errors.New("this node has not received the key of the cluster's secrets yet")

// SecretKeys seals secrets with keys of the database. Its errors are ErrNoKey if it does not have them.
type SecretKeys interface {
	// Reseal returns a secret of a row sealed with a key, whatever it was sealed with.
	Reseal(key string, secret, row []byte) ([]byte, error)
	// KeyOf returns the ID of the key with which a secret is sealed, "" for none of the database.
	KeyOf(secret []byte) string
}

// SharedKey is a key of the database: its ID, and the key sealed by the caller.
type SharedKey struct {
	ID     string
	Sealed []byte
}

// KeyState is the key with which secrets of the content are sealed from now on. Some may still be sealed with former ones.
type KeyState struct {
	ID    string // "" if the caller seals them with its own key, as in a database that was never shared
	Since int64  // the index of the log with which ChangeSharedKey was called; below 0 if nodes of a former cluster know the key
}

// SetSecretKeys sets what seals secrets. It is called before the database is shared.
func (d *DB) SetSecretKeys(k SecretKeys) { d.keys = k }

// KeyState returns the key with which the secrets of the content are sealed.
func (d *DB) KeyState() KeyState {
	if s := d.keyState.Load(); s != nil {
		return *s
	}
	return KeyState{}
}

// SharedKeys returns the keys that this copy has, also those that are not in use, and the present
// KeyState.
func (d *DB) SharedKeys(ctx context.Context) (s KeyState, keys []SharedKey, err error) {
	err = d.read(ctx, "read the keys of the database", func(tx *sql.Tx) error {
		has, err := hasSharedKeys(ctx, tx)
		if err != nil || !has {
			return err
		}
		if s, err = readKeyState(ctx, tx); err != nil {
			return err
		}
		keys, err = collect(ctx, tx, scanSharedKey, "SELECT id, key FROM shared_keys ORDER BY id")
		return err
	})
	return s, keys, err
}

const keyStateQuery = "SELECT key_id, key_since FROM shared_state"

func scanSharedKey(row scanner) (k SharedKey, err error) {
	err = row.Scan(&k.ID, &k.Sealed)
	return k, err
}

func scanText(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

// hasSharedKeys reports whether the schema has keys; that of a View may be older.
func hasSharedKeys(ctx context.Context, q queryer) (bool, error) {
	return exists(ctx, q, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'shared_keys')")
}

// StoreSharedKey stores a key in this copy only, durably. It is deleted if it is not in use two hours
// later. ErrTooLarge: there are too many of these.
func (d *DB) StoreSharedKey(ctx context.Context, k SharedKey) error {
	const q = `INSERT INTO shared_keys (id, key, since) SELECT ?1, ?2, ?3
		WHERE (SELECT COUNT(*) FROM shared_keys) < ?4 OR ?1 IN (SELECT id FROM shared_keys UNION ALL SELECT key_id FROM shared_state)
		ON CONFLICT DO UPDATE SET key = excluded.key, since = excluded.since`
	return d.writeLocal(ctx, "store a key of the database", func(tx *sql.Tx) error {
		err := affected(tx.ExecContext(ctx, q, k.ID, k.Sealed, millis(time.Now()), maxSharedKeys))
		if errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("%w: it has %d keys that are not in use", ErrTooLarge, maxSharedKeys)
		}
		return err
	})
}

// DropSharedKeys deletes keys of this copy that nothing needs any more at that time of this machine: no secret
// is sealed with them. It writes nothing if there are none. SetSecretKeys comes before.
func (d *DB) DropSharedKeys(ctx context.Context, now time.Time) error {
	const unused = "FROM shared_keys WHERE since < ? AND id <> (SELECT key_id FROM shared_state)"
	before := millis(now.Add(-sharedKeyTime))
	if found, err := exists(ctx, d.ro, "SELECT EXISTS (SELECT 1 "+unused+")", before); err != nil || !found {
		return wrap("look for former keys of the database", err)
	}
	return d.writeLocal(ctx, "delete former keys of the database", func(tx *sql.Tx) error {
		inUse, err := d.keysInUse(ctx, tx)
		if err != nil {
			return err
		}
		ids, err := collect(ctx, tx, scanText, "SELECT id "+unused, before)
		for _, id := range ids {
			if !inUse[id] && err == nil {
				_, err = tx.ExecContext(ctx, "DELETE FROM shared_keys WHERE id = ?", id)
			}
		}
		return err
	})
}

// sealedRow is a secret without itself.
type sealedRow struct {
	kind sealedKind
	id   string
	key  string // with which it is sealed, "" for none of the database
	size int    // in bytes
}

func (d *DB) scanSealedRow(row scanner) (sealedRow, error) {
	s, err := scanSealed(row)
	r := sealedRow{kind: s.kind, id: s.ID, size: len(s.Secrets)}
	if d.keys != nil {
		r.key = d.keys.KeyOf(s.Secrets)
	}
	return r, err
}

// keysInUse returns the IDs of the keys with which secrets are sealed.
func (d *DB) keysInUse(ctx context.Context, q queryer) (map[string]bool, error) {
	inUse := map[string]bool{}
	all, err := collectSealed(ctx, q, d.scanSealedRow)
	for _, s := range all {
		if s.key != "" {
			inUse[s.key] = true
		}
	}
	return inUse, err
}

// KeysInUse returns the IDs of the keys with which secrets of the content are sealed, in order. Former ones are
// among them until ResealSecrets has completed, and those that are lost.
func (d *DB) KeysInUse(ctx context.Context) (ids []string, err error) {
	err = d.read(ctx, "list the keys of the secrets", func(tx *sql.Tx) error {
		inUse, err := d.keysInUse(ctx, tx)
		ids = slices.Sorted(maps.Keys(inUse))
		return err
	})
	return ids, err
}

// BeginSharedKey seals all secrets of a database that is not shared yet with a key, which
// StoreSharedKey has stored.
func (d *DB) BeginSharedKey(ctx context.Context, id string) error {
	err := d.write(ctx, "seal the secrets with a new key", func(tx *writeTx) error {
		if tx.recorded != nil {
			return fmt.Errorf("%w: the database is shared already", ErrInUse)
		}
		if err := d.changeKey(ctx, tx, id, 0); err != nil {
			return err
		}
		return d.keyChanged(ctx, tx.tx)
	})
	if err == nil {
		d.keyState.Store(&KeyState{ID: id})
	}
	return err
}

// ChangeSharedKey has secrets of the shared content sealed with another key from now on, which all nodes
// should have stored, and reports whether it has done so. It has a reason: the removal of a member at that index of the
// log, unless the present key was made after it, as by another node, or a key that is lost, unless it is not the present
// one any more ("" for none). ResealSecrets comes next.
func (d *DB) ChangeSharedKey(ctx context.Context, id string, removal int64, lost string) (changed bool, err error) {
	err = d.write(ctx, "seal the secrets with a new key", func(tx *writeTx) error {
		changed = false
		s, err := readKeyState(ctx, tx)
		if err != nil || s.Since >= removal && (s.ID != lost || lost == "") || s.ID == id {
			return err
		}
		changed = true
		_, err = tx.ExecContext(ctx, changeKeyQuery, id, max(removal, s.Since))
		return err
	})
	return changed && err == nil, err
}

func readKeyState(ctx context.Context, q queryer) (s KeyState, err error) {
	err = q.QueryRowContext(ctx, keyStateQuery).Scan(&s.ID, &s.Since)
	return s, err
}

// changeKeyQuery is the statement that Apply recognises.
const changeKeyQuery = "UPDATE shared_state SET key_id = ?, key_since = ?"

// changeKey seals all secrets with another key. Those whose key is lost stay as they are.
func (d *DB) changeKey(ctx context.Context, tx *writeTx, id string, since int64) error {
	all, err := collectSealed(ctx, tx, scanSealed)
	if err != nil {
		return err
	}
	broken, err := d.resealAll(ctx, tx, id, all)
	if err := errors.Join(append(broken, err)...); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, changeKeyQuery, id, since)
	return err
}

// resealAll seals secrets with a key, except those whose key is lost. It returns errors about those that cannot be unsealed.
func (d *DB) resealAll(ctx context.Context, tx *writeTx, id string, all []Sealed) (broken []error, err error) {
	for _, s := range all {
		secrets, err := d.reseal(id, s.Secrets, s.ID)
		switch {
		case errors.Is(err, ErrNoKey) || bytes.Equal(secrets, s.Secrets):
			continue
		case err != nil:
			broken = append(broken, fmt.Errorf("the secret of %s: %w", s.ID, err))
			continue
		}
		if err := affected(tx.ExecContext(ctx, updateSealed[s.kind], secrets, s.ID)); err != nil {
			return nil, err
		}
	}
	return broken, nil
}

// Bounds of the secrets that are sealed anew in one change: their bytes, which the last one may exceed, and their number.
const (
	resealBytes = 1 << 20
	resealRows  = 1000
)

// ResealSecrets seals secrets of the shared content with its present key that are sealed with former ones, in as
// many changes as are needed. Those whose key this copy does not have stay as they are, as do those that cannot be
// unsealed, about which it returns errors.
func (d *DB) ResealSecrets(ctx context.Context) (broken []error, err error) {
	var all []sealedRow
	err = d.read(ctx, "list secrets", func(tx *sql.Tx) (err error) {
		all, err = collectSealed(ctx, tx, d.scanSealedRow)
		return err
	})
	key := d.KeyState().ID
	all = slices.DeleteFunc(all, func(s sealedRow) bool { return s.key == key })
	for err == nil && len(all) > 0 {
		n, size := 0, 0
		for ; n < len(all) && n < resealRows && size < resealBytes; n++ {
			size += all[n].size
		}
		var more []error
		more, err = d.resealPart(ctx, all[:n])
		broken, all = append(broken, more...), all[n:]
	}
	return broken, err
}

// resealPart is ResealSecrets for some secrets, in one change. They may have changed since they were read.
func (d *DB) resealPart(ctx context.Context, part []sealedRow) (broken []error, err error) {
	err = d.write(ctx, "seal secrets with a new key", func(tx *writeTx) error {
		broken = nil
		key, err := readKeyState(ctx, tx)
		if err != nil {
			return err
		}
		for _, s := range part {
			now, err := collect(ctx, tx, scanSealed, selectSealed[s.kind], s.id)
			if err != nil {
				return err
			}
			more, err := d.resealAll(ctx, tx, key.ID, now)
			if err != nil {
				return err
			}
			broken = append(broken, more...)
		}
		return nil
	})
	return broken, err
}

func (d *DB) reseal(key string, secret []byte, row string) ([]byte, error) {
	if d.keys == nil {
		return nil, ErrNoKey
	}
	return d.keys.Reseal(key, secret, []byte(row))
}

// current returns a secret that is about to be stored as the shared content has it. The caller may have
// sealed it with a key that was replaced since.
func (d *DB) current(ctx context.Context, tx *writeTx, secret []byte, row string) ([]byte, error) {
	if tx.recorded == nil || len(secret) == 0 {
		return secret, nil
	}
	s, err := readKeyState(ctx, tx)
	if err != nil || s.ID == "" {
		return secret, err
	}
	return d.reseal(s.ID, secret, row)
}

// keyChanged notes, in the transaction in which the content has another key, when the one before was
// replaced.
func (d *DB) keyChanged(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE shared_keys SET since = ? WHERE id = ?", millis(time.Now()), d.KeyState().ID)
	return err
}
