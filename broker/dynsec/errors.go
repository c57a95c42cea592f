package dynsec

// refusal is the error text of a command that was not run.
type refusal string

func (r refusal) Error() string { return string(r) }

// unknownCommand stands for the command's name where there is none.
const unknownCommand = "Unknown command"

// The texts of Mosquitto 2.1.
const (
	errNotJSON        refusal = "Payload not valid JSON"
	errNoCommands     refusal = "Invalid/missing commands"
	errNoObject       refusal = "Command not an object"
	errNoCommand      refusal = "Missing command"
	errUnknownCommand refusal = "Unknown command"
	errCorrelation    refusal = "Invalid correlationData data type."
	errInternal       refusal = "Internal error"

	errUsername        refusal = "Invalid/missing username"
	errUsernameEmpty   refusal = "Empty username"
	errUsernameUTF8    refusal = "Username not valid UTF-8"
	errPassword        refusal = "Invalid/missing password"
	errPasswordEmpty   refusal = "Empty password is not allowed"
	errClientIDCreate  refusal = "Invalid/missing client id"
	errClientIDSet     refusal = "Invalid/missing client ID"
	errClientIDUTF8    refusal = "Client ID not valid UTF-8"
	errTextName        refusal = "Invalid/missing textname"
	errTextDescription refusal = "Invalid/missing textdescription"
	errClientExists    refusal = "Client already exists"
	errClientNotFound  refusal = "Client not found"
	errMember          refusal = "Client is already in this group"
	errGroupsUnknown   refusal = "'groups' contains an object with a 'groupname' that does not exist"
	errGroupsInvalid   refusal = "'groups' contains an object with an invalid 'groupname'"

	errGroupname      refusal = "Invalid/missing groupname"
	errGroupnameEmpty refusal = "Empty groupname"
	errGroupnameUTF8  refusal = "Group name not valid UTF-8"
	errGroupExists    refusal = "Group already exists"
	errGroupNotFound  refusal = "Group not found"
	errGroupHasRole   refusal = "Group is already in this role"
	errGroupAnonymous refusal = "Deleting the anonymous group is forbidden"
	errClientsUnknown refusal = "'clients' contains an object with a 'username' that does not exist"
	errClientsInvalid refusal = "'clients' contains an object with an invalid 'username'"

	errRolename      refusal = "Invalid/missing rolename"
	errRolenameEmpty refusal = "Empty rolename"
	errRolenameUTF8  refusal = "Role name not valid UTF-8"
	errRoleExists    refusal = "Role already exists"
	errRoleNotFound  refusal = "Role not found"
	errRoleNone      refusal = "Role does not exist" // the text of modifyRole
	errRoles         refusal = "'roles' not an array or missing/invalid rolename"
	errWildcardSubs  refusal = "Invalid allowwildcardsubs"

	errACLType        refusal = "Invalid/missing acltype"
	errACLTypeUnknown refusal = "Unknown acltype"
	errTopic          refusal = "Invalid/missing topic"
	errTopicUTF8      refusal = "Topic not valid UTF-8"
	errTopicInvalid   refusal = "Invalid ACL topic"
	errACLExists      refusal = "ACL with this topic already exists"
	errACLNotFound    refusal = "ACL not found"
	errActions        refusal = "Missing/invalid actions array"
)
