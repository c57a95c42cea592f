package query

import (
	"strconv"
	"strings"
)

// maxPath is how many members a path may have.
const maxPath = 32

// parsePath splits a path such as "[Machine Data][Speed]" into its names. A
// closing bracket in a name is doubled. The empty path is the whole document.
// The problem is the predicate of a sentence, empty if there is none.
func parsePath(text string) (names []string, problem string) {
	for rest := text; rest != ""; {
		name, after, problem := cutName(rest)
		if problem != "" {
			return nil, problem
		}
		if len(names) == maxPath {
			return nil, "must have at most " + strconv.Itoa(maxPath) + " members"
		}
		names, rest = append(names, name), after
	}
	return names, ""
}

// cutName cuts the first name off a non-empty path.
func cutName(path string) (name, after, problem string) {
	if path[0] != '[' {
		return "", "", "must be names in brackets, as in [Machine Data][Speed]"
	}
	end := 1
	for {
		i := strings.IndexByte(path[end:], ']')
		if i < 0 {
			return "", "", "must close every bracket; a closing bracket in a name is written twice"
		}
		end += i + 1
		if !strings.HasPrefix(path[end:], "]") {
			break
		}
		end++
	}
	if name = strings.ReplaceAll(path[1:end-1], "]]", "]"); name == "" {
		return "", "", "must have a name in every bracket"
	}
	return name, path[end:], ""
}

// position returns the index of the array element that a name addresses, or -1.
func position(name string) int {
	if n, err := strconv.Atoi(name); err == nil && strconv.Itoa(n) == name {
		return n
	}
	return -1
}
