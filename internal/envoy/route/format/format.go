// Package format checks the values of headers that rules set. Such a value is a format string: Envoy replaces each command in it, such as
// %REQ(x-id)%, for each request.
//
// Envoy refuses a whole virtual host for one command that it does not know. Some commands that it does know return data of the proxy, which
// a rule's author may not see. A value is checked here before it goes into a message. commands.go lists the commands of both kinds.
//
// The specification is Envoy's documentation, Access logging, command operators. The package is pure, and must not know rules, fields or
// problems: envoy/route reports what is wrong.
package format

import "strings"

// maxValue is how many bytes a value may have.
const maxValue = 16384

// Valid reports whether a rule may set a header to v, and Envoy accepts it: no control characters, and percent signs only as its formatter
// reads them (doubled, or around a command that rules may have: %REQ(x)%).
func Valid(v string) bool {
	for i := range len(v) {
		if v[i] == 0 || v[i] == '\n' || v[i] == '\r' {
			return false
		}
	}
	return len(v) <= maxValue && formatted(v)
}

// formatted walks the commands of a format string (Envoy: Access logging, command operators).
func formatted(v string) bool {
	for n := 0; n <= maxCommands; n++ {
		i := strings.IndexByte(v, '%')
		if i < 0 {
			return true
		}
		v = v[i+1:]
		if strings.HasPrefix(v, "%") {
			v = v[1:]
			n--
			continue
		}
		rest, ok := command(v)
		if !ok {
			return false
		}
		v = rest
	}
	return false
}

// command parses NAME, NAME(args) and :length up to the closing percent sign.
func command(v string) (rest string, ok bool) {
	n := commandName(v)
	name := v[:n]
	v = v[n:]
	if !allowedCommand(name, strings.HasPrefix(v, "(")) {
		return "", false
	}
	if strings.HasPrefix(v, "(") {
		end := strings.IndexByte(v, ')')
		if end < 0 || !argument(name, v[1:end]) {
			return "", false
		}
		v = v[end+1:]
	}
	if digits, found := strings.CutPrefix(v, ":"); found {
		v = strings.TrimLeft(digits, "0123456789")
		if n := len(digits) - len(v); n == 0 || n > maxDigits {
			return "", false
		}
	}
	return strings.CutPrefix(v, "%")
}
