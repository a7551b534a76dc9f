package config

import "strings"

// unixScheme begins a bind or an endpoint that is a unix socket.
const unixScheme = "unix://"

// maxSocket is how many bytes the path of a unix socket may have on Linux (unix(7), sun_path without its last byte).
const maxSocket = 107

// isSocket tells a unix socket from an address.
func isSocket(s string) bool { return strings.HasPrefix(s, unixScheme) }

// bind checks where a listener is bound: an IP address, unix:///path, or unix://@name in Linux' abstract namespace.
func (c *check) bind(at path, s string) {
	name := strings.TrimPrefix(s, unixScheme)
	switch {
	case s == "" || !isSocket(s) && isIP(s):
	case !isSocket(s):
		c.fail(at, "BadAddress", quote(s)+" is not an address", "write an IP address, unix:///path or unix://@name")
	case len(name) < 2 || name[0] != '/' && name[0] != '@' || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		c.fail(at, "BadAddress", quote(s)+" is not a socket", "write unix:///path/to/socket, or unix://@name for an abstract one")
	case len(name) > maxSocket:
		c.fail(at, "BadAddress", quote(s)+" is too long for a socket", "write at most 107 bytes behind unix://")
	}
}

// boundPort checks the port of a listener, which may be 0 at a unix socket: a socket has none.
func (c *check) boundPort(at path, bind string, number uint32) {
	if number != 0 || !isSocket(bind) {
		c.port(at, number)
	}
}
