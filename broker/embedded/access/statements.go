package access

import (
	"context"
	"database/sql"
)

// statements are the prepared changes of single rows.
type statements struct {
	insertSettings, changeIndex, defaults, anonymousGroup *sql.Stmt

	newClient, client, deleteClient, password, deletePassword *sql.Stmt
	clientRole, deleteClientRole, deleteClientRoles           *sql.Stmt
	clientGroup, deleteClientGroup, deleteClientGroups        *sql.Stmt
	group, deleteGroup, groupRole, deleteGroupRoles           *sql.Stmt
	role, deleteRole                                          *sql.Stmt

	clear          [7]*sql.Stmt
	deleteSettings *sql.Stmt
	applied        *sql.Stmt
}

// prepareStatements prepares all statements. A record that is put again is updated in
// place, never replaced: a replacement would delete its references.
func prepareStatements(ctx context.Context, db *sql.DB) (*statements, error) {
	s := &statements{}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.insertSettings, `
			INSERT INTO access_settings
				(id, publish_client_send, publish_client_receive, subscribe, unsubscribe, change_index)
			VALUES (1, 0, 1, 0, 1, 0)
			ON CONFLICT DO NOTHING`},
		{&s.changeIndex, `UPDATE access_settings SET change_index = ?`},
		{&s.defaults, `
			UPDATE access_settings
			SET publish_client_send = ?, publish_client_receive = ?, subscribe = ?, unsubscribe = ?`},
		{&s.anonymousGroup, `UPDATE access_settings SET anonymous_group = ?`},

		{&s.newClient, `
			INSERT INTO access_clients (username, clientid, textname, textdescription, disabled)
			VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`},
		{&s.client, `
			UPDATE access_clients SET clientid = ?, textname = ?, textdescription = ?, disabled = ?
			WHERE username = ?`},
		{&s.deleteClient, `DELETE FROM access_clients WHERE username = ?`},
		{&s.password, `
			INSERT INTO access_passwords (username, encoded) VALUES (?, ?)
			ON CONFLICT (username) DO UPDATE SET encoded = excluded.encoded`},
		{&s.deletePassword, `DELETE FROM access_passwords WHERE username = ?`},
		{&s.clientRole, `INSERT INTO access_client_roles (username, rolename, priority) VALUES (?, ?, ?)`},
		{&s.deleteClientRole, `DELETE FROM access_client_roles WHERE username = ? AND rolename = ?`},
		{&s.deleteClientRoles, `DELETE FROM access_client_roles WHERE username = ?`},
		{&s.clientGroup, `INSERT INTO access_client_groups (username, groupname, priority) VALUES (?, ?, ?)`},
		{&s.deleteClientGroup, `DELETE FROM access_client_groups WHERE username = ? AND groupname = ?`},
		{&s.deleteClientGroups, `DELETE FROM access_client_groups WHERE username = ?`},

		{&s.group, `
			INSERT INTO access_groups (groupname, textname, textdescription) VALUES (?, ?, ?)
			ON CONFLICT (groupname) DO UPDATE
			SET textname = excluded.textname, textdescription = excluded.textdescription`},
		{&s.deleteGroup, `DELETE FROM access_groups WHERE groupname = ?`},
		{&s.groupRole, `INSERT INTO access_group_roles (groupname, rolename, priority) VALUES (?, ?, ?)`},
		{&s.deleteGroupRoles, `DELETE FROM access_group_roles WHERE groupname = ?`},

		{&s.role, `
			INSERT INTO access_roles (rolename, textname, textdescription, allow_wildcard_subs, acls)
			VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (rolename) DO UPDATE SET textname = excluded.textname,
				textdescription = excluded.textdescription,
				allow_wildcard_subs = excluded.allow_wildcard_subs, acls = excluded.acls`},
		{&s.deleteRole, `DELETE FROM access_roles WHERE rolename = ?`},

		// References first: a bulk does not follow them.
		{&s.clear[0], `DELETE FROM access_passwords`},
		{&s.clear[1], `DELETE FROM access_client_roles`},
		{&s.clear[2], `DELETE FROM access_client_groups`},
		{&s.clear[3], `DELETE FROM access_group_roles`},
		{&s.clear[4], `DELETE FROM access_clients`},
		{&s.clear[5], `DELETE FROM access_groups`},
		{&s.clear[6], `DELETE FROM access_roles`},
		{&s.deleteSettings, `DELETE FROM access_settings`},
		{&s.applied, `
			INSERT INTO access_log (id, applied) VALUES (1, ?)
			ON CONFLICT (id) DO UPDATE SET applied = excluded.applied`},
	} {
		stmt, err := db.PrepareContext(ctx, p.text)
		if err != nil {
			return nil, err
		}
		*p.stmt = stmt
	}
	return s, nil
}
