package dynsec

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxLineBytes bounds a line of a password_file or acl_file: enough for the longest
// name or topic of MQTT and the rest of the line.
const maxLineBytes = 128 << 10

// ParsePasswordFile reads a password_file of Mosquitto: a client for each line
// user:hash. Hashes that begin with $7$, $argon2id$ or $6$ are kept. $6$ is one round
// of SHA-512: a warning names each user that needs a new password, and strict refuses
// the file. Plain-text passwords are refused; the error is a *broker.Error of kind
// Invalid that names every faulty line.
func ParsePasswordFile(r io.Reader, strict bool) (Document, []string, error) {
	f := passwordFile{seen: make(map[string]bool), strict: strict}
	if err := eachLine(r, &f.checker, f.line); err != nil {
		return Document{}, nil, err
	}
	if len(f.problems) > 0 {
		return Document{}, nil, invalidFile(f.problems)
	}
	f.doc.order()
	return f.doc, f.warnings(), nil
}

type passwordFile struct {
	checker
	doc    Document
	seen   map[string]bool
	strict bool
	weak   []string // users with a $6$ hash
}

func (f *passwordFile) warnings() []string {
	if len(f.doc.Clients) == 0 {
		return []string{"there is no client in the file"}
	}
	var all []string
	for _, username := range f.weak {
		all = append(all, fmt.Sprintf("user %q needs a new password: the hash is of the old kind $6$, which is quickly guessed by whoever gets hold of it; it works until then", username))
	}
	return all
}

func (f *passwordFile) line(n int, line string) {
	username, hash, ok := strings.Cut(line, ":")
	username, hash = strings.TrimSpace(username), strings.TrimSpace(hash)
	switch problem := badName(username); {
	case !ok:
		f.add("line %d: there is no colon between user and password hash", n)
	case problem != "":
		f.add("line %d: the user's name %s", n, problem)
	case f.seen[username]:
		f.add("line %d: user %q is there twice", n, username)
	default:
		f.client(n, username, hash)
	}
	f.seen[username] = true
}

func (f *passwordFile) client(n int, username, hash string) {
	switch err := checkPasswordHash(hash); {
	case IsWeakHash(hash) && f.strict:
		f.add("line %d: user %q has a hash of the old kind $6$, too weak to be kept: set a new password with mosquitto_passwd and import again", n, username)
	case !strings.HasPrefix(hash, "$"):
		f.add("line %d: user %q has a password that is not hashed: run mosquitto_passwd -U on the file and import again", n, username)
	case err != nil:
		f.add("line %d: user %q: %v", n, username, err)
	default:
		if IsWeakHash(hash) {
			f.weak = append(f.weak, username)
		}
		f.doc.Clients = append(f.doc.Clients, DocumentClient{Username: username, EncodedPassword: hash})
	}
}

// eachLine calls each for the lines that are not empty, without surrounding white
// space, with their numbers. Lines that begin with # are comments.
func eachLine(r io.Reader, c *checker, each func(n int, line string)) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLineBytes)
	n := 0
	for s.Scan() {
		n++
		line := strings.TrimSpace(s.Text())
		switch {
		case line == "" || line[0] == '#':
		case !utf8.ValidString(line):
			c.add("line %d: not UTF-8", n)
		default:
			each(n, line)
		}
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		c.add("line %d: longer than %d bytes", n+1, maxLineBytes)
	} else if err != nil {
		return fmt.Errorf("read line %d: %w", n+1, err)
	}
	return nil
}
