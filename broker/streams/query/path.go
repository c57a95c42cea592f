package query

import (
	"strconv"
	"strings"
)

// maxPath is how many members a path may have.
const maxPath = 32

// parsePath splits a path, as in "[Machine Data][Speed]", into its names. A
// closing bracket in a name is doubled. The empty path is the whole document.
// The complaint is a sentence, empty where there is none.
func parsePath(text string) (names []string, complaint string) {
	for rest := text; rest != ""; {
		name, after, complaint := cutName(rest)
		if complaint != "" {
			return nil, complaint
		}
		if len(names) == maxPath {
			return nil, "must have at most " + strconv.Itoa(maxPath) + " members"
		}
		names, rest = append(names, name), after
	}
	return names, ""
}

// cutName cuts the first name off a path that is not empty.
func cutName(path string) (name, after, complaint string) {
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

// position gives the array element that a name addresses, a negative one if
// none.
func position(name string) int {
	if n, err := strconv.Atoi(name); err == nil && strconv.Itoa(n) == name {
		return n
	}
	return -1
}
