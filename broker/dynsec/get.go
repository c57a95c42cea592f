package dynsec

import "signalbox/broker"

// GetGroup makes the command of this name.
func GetGroup(groupname string) Command { return ofGroup(opGetGroup, groupname) }

// GetRole makes the command of this name.
func GetRole(rolename string) Command { return ofRole(opGetRole, rolename) }

// GetAnonymousGroup makes the command of this name.
func GetAnonymousGroup() Command { return command(opGetAnonymousGroup, arguments{}) }

// Group gives the record of getGroup's answer.
func (a Answer) Group() (broker.Group, error) { return record[broker.Group](a) }

// Role gives the record of getRole's answer.
func (a Answer) Role() (broker.Role, error) { return record[broker.Role](a) }

// AnonymousGroup gives the name that getAnonymousGroup answered, "" for none.
func (a Answer) AnonymousGroup() (groupname string, err error) {
	name, err := data[anonymousGroup](a)
	return string(name), err
}
