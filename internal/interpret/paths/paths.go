// Package paths takes paths and authorities of requests apart as Envoy does.
package paths

import (
	"strconv"
	"strings"
)

// Canonical decodes the escapes of letters, digits and "-._~", and removes dot segments. It returns false for a path with characters that
// belong in no URL: what Envoy does with these is not interpreted.
func Canonical(path string) (string, bool) {
	path, plain := decode(path)
	if !plain || !strings.HasPrefix(path, "/") {
		return path, false
	}
	var out []string
	parts := strings.Split(path, "/")[1:]
	for i, p := range parts {
		if p != "." && p != ".." {
			out = append(out, p)
			continue
		}
		if p == ".." && len(out) > 0 {
			out = out[:len(out)-1]
		}
		if i == len(parts)-1 {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/"), true
}

// decode decodes the escapes of characters that need none; false: the path has characters that need one.
func decode(path string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '\\':
			c = '/'
		case c == '%':
			if i+2 >= len(path) {
				return path, false
			}
			n, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
			if err != nil {
				return path, false
			}
			if d := byte(n); alphanumeric(d) || strings.IndexByte("-._~", d) >= 0 {
				c = d
				i += 2
			}
		case !alphanumeric(c) && strings.IndexByte("/-._~!$&'()*+,;=:@", c) < 0:
			return path, false
		}
		out.WriteByte(c)
	}
	return out.String(), true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// SplitPort splits a port off, with its colon.
func SplitPort(authority string) (host, port string) {
	i := strings.LastIndexByte(authority, ':')
	if i < 0 || strings.IndexByte(authority[i:], ']') >= 0 || strings.Count(authority, ":") > 1 && !strings.HasPrefix(authority, "[") {
		return authority, ""
	}
	if _, err := strconv.ParseUint(authority[i+1:], 10, 32); err != nil {
		return authority, ""
	}
	return authority[:i], authority[i:]
}

// WithoutQuery returns a path without its query and fragment.
func WithoutQuery(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		return path[:i]
	}
	return path
}
