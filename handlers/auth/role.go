package auth

// Role is what a caller may do, or what an operation demands. A higher role
// includes the lower ones. The zero Role is held by no caller and, as a demand,
// denies everybody.
type Role int

// The roles, lowest first. Public and SignedIn are demands only; Viewer, Editor
// and Admin are held in a project; Root acts as Admin in every project.
const (
	Nobody Role = iota
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
	if r < Nobody || r > Root {
		return roleNames[Nobody]
	}
	return roleNames[r]
}

// ParseRole reads the name of a role that is stored: "viewer", "editor", "admin"
// or "root". Anything else is Nobody and false.
func ParseRole(name string) (Role, bool) {
	for r := Viewer; r <= Root; r++ {
		if roleNames[r] == name {
			return r, true
		}
	}
	return Nobody, false
}

// Allows reports whether a caller with role r may do what demands least.
func (r Role) Allows(least Role) bool {
	switch least {
	case Nobody:
		return false
	case Public:
		return true
	default:
		return r >= least
	}
}
