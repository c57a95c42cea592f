package dynsec

import "signalbox/broker"

// GetGroup returns the command of this name.
func GetGroup(groupname string) Command { return ofGroup(opGetGroup, groupname) }

// GetRole returns the command of this name.
func GetRole(rolename string) Command { return ofRole(opGetRole, rolename) }

// GetAnonymousGroup returns the command of this name.
func GetAnonymousGroup() Command { return command(opGetAnonymousGroup, arguments{}) }

// Group returns the record in the response to getGroup.
func (a Response) Group() (broker.Group, error) { return record[broker.Group](a) }

// Role returns the record in the response to getRole.
func (a Response) Role() (broker.Role, error) { return record[broker.Role](a) }

// AnonymousGroup returns the response to getAnonymousGroup, "" for none.
func (a Response) AnonymousGroup() (groupname string, err error) {
	name, err := data[anonymousGroup](a)
	return string(name), err
}
