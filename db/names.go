package db

import (
	"context"
	"encoding/json"
	"iter"
)

// Name is a broker connection or cluster by its name. Rev is 0 for a cluster.
type Name struct {
	ID, ProjectID, Name string
	Rev                 int64
}

func scanName(row scanner) (n Name, err error) {
	err = row.Scan(&n.ID, &n.ProjectID, &n.Name, &n.Rev)
	return n, err
}

// BrokerNames lists the broker connections of projects without what they contain, oldest
// first.
func (d *DB) BrokerNames(ctx context.Context, projectIDs []string) ([]Name, error) {
	return collectOf(ctx, d, "list names of brokers", scanName, `
		SELECT id, project_id, name, rev FROM brokers
		WHERE project_id IN (SELECT value FROM json_each(?)) ORDER BY created_at, id`, projectIDs)
}

// ClusterNames lists the clusters of projects without their nodes, oldest first.
func (d *DB) ClusterNames(ctx context.Context, projectIDs []string) ([]Name, error) {
	return collectOf(ctx, d, "list names of clusters", scanName, `
		SELECT id, project_id, name, 0 FROM clusters
		WHERE project_id IN (SELECT value FROM json_each(?)) ORDER BY created_at, id`, projectIDs)
}

// collectOf is collect for a query about several projects, whose parameter is the JSON array of
// their ids.
func collectOf[T any](ctx context.Context, d *DB, what string, scan func(scanner) (T, error), q string, projectIDs []string) ([]T, error) {
	list, err := json.Marshal(projectIDs)
	if err != nil {
		return nil, wrap(what, err)
	}
	all, err := collect(ctx, d.ro, scan, q, string(list))
	return all, wrap(what, err)
}

// UserName is a user by its name and address.
type UserName struct{ ID, Email, FirstName, LastName string }

// Name is what to call the user, as that of User.
func (u UserName) Name() string { return personName(u.FirstName, u.LastName, u.Email) }

// UserNames yields all users without what else is stored of them, ordered by their
// addresses.
func (d *DB) UserNames(ctx context.Context) iter.Seq2[UserName, error] {
	const what, q = "list names of users", "SELECT id, email, first_name, last_name FROM users ORDER BY email_key"
	return func(yield func(UserName, error) bool) {
		rows, err := d.ro.QueryContext(ctx, q)
		if err != nil {
			yield(UserName{}, wrap(what, err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var u UserName
			err := rows.Scan(&u.ID, &u.Email, &u.FirstName, &u.LastName)
			if !yield(u, wrap(what, err)) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(UserName{}, wrap(what, err))
		}
	}
}
