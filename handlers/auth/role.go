package auth

// Role is what a caller may do, or what an operation requires. A higher role includes
// the lower ones. No caller has the zero Role; as a requirement it denies every caller.
type Role int

// The roles, lowest first. Public and SignedIn are requirements only; Viewer, Editor
// and Admin are roles in a project; Root acts as Admin in every project.
const (
	NoRole Role = iota
	Public
	SignedIn
	Viewer
	Editor
	Admin
	Root
)

var roleNames = [...]string{"nobody", "public", "signed-in", "viewer", "editor", "admin", "root"}

// String returns the role's name.
func (r Role) String() string {
	if r < NoRole || r > Root {
		return roleNames[NoRole]
	}
	return roleNames[r]
}

// ParseRole returns the role with a stored name: "viewer", "editor", "admin" or "root".
// For anything else it returns NoRole and false.
func ParseRole(name string) (Role, bool) {
	for r := Viewer; r <= Root; r++ {
		if roleNames[r] == name {
			return r, true
		}
	}
	return NoRole, false
}

// Allows reports whether a caller with role r may do what requires least.
func (r Role) Allows(least Role) bool {
	switch least {
	case NoRole:
		return false
	case Public:
		return true
	default:
		return r >= least
	}
}
