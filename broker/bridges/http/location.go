package http

import (
	"errors"
	"net/url"
	"strings"

	"signalbox/broker/bridges/target"
)

// maxLocation is the maximum length of what is appended to the URL, in bytes.
const maxLocation = 16 << 10

// location returns path and query of base with added appended. Added is made from a message by a
// template and may be any text.
func location(base, added string) (path, query string, err error) {
	path, query, _ = strings.Cut(added, "?")
	if path != "" {
		path = strings.TrimSuffix(base, "/") + path
	} else if path = base; path == "" {
		path = "/"
	}
	switch {
	case len(added) > maxLocation:
		return "", "", errors.New("makes a path that is too long")
	case !isLocation(added):
		return "", "", errors.New("makes a path with characters that no URL has; without |raw they are escaped")
	case target.HasDotSegment(path):
		return "", "", errors.New("makes a path with . or .. as a segment, which would lead elsewhere")
	}
	return path, query, nil
}

// isLocation reports whether a text consists of characters that are valid in the path and query
// of a URL.
func isLocation(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>[\\]^`{|}", c) >= 0:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// resolve returns the URL for a path and query from location.
func resolve(base *url.URL, path, query string) (*url.URL, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, errors.New("makes a path that no URL can have")
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: plain, RawPath: path, RawQuery: query}, nil
}
