package traffic

import (
	"strconv"
	"strings"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// unixScheme begins a bind or an endpoint that is a unix socket.
const unixScheme = "unix://"

// maxSocket is how many bytes the path of a unix socket may have on Linux (unix(7), sun_path without its last byte).
const maxSocket = 107

// isSocket distinguishes a unix socket from an address.
func isSocket(s string) bool { return strings.HasPrefix(s, unixScheme) }

// checkBind checks where a listener is bound: an IP address, unix:///path, or unix://@name in Linux' abstract namespace.
func checkBind(c *rule.Check, at report.Path, s string) {
	name := strings.TrimPrefix(s, unixScheme)
	switch {
	case s == "" || !isSocket(s) && rule.IsIP(s):
	case !isSocket(s):
		c.Fail(at, code.BadAddress, strconv.Quote(s)+" is not an address", "write an IP address, unix:///path or unix://@name")
	case len(name) < 2 || name[0] != '/' && name[0] != '@' || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		c.Fail(at, code.BadAddress, strconv.Quote(s)+" is not a socket",
			"write unix:///path/to/socket, or unix://@name for an abstract one")
	case len(name) > maxSocket:
		c.Fail(at, code.BadAddress, strconv.Quote(s)+" is too long for a socket", "write at most 107 bytes behind unix://")
	}
}

// checkBoundPort checks the port of a listener, which may be 0 at a unix socket: a socket has none.
func checkBoundPort(c *rule.Check, at report.Path, bind string, number uint32) {
	if number != 0 || !isSocket(bind) {
		c.Port(at, number)
	}
}
