package crd

import (
	"regexp"
	"strings"
)

// A remedy says what to write instead where a message of a schema's rule or of the library matches. $1 and so on are groups of the match.
type remedy struct {
	message *regexp.Regexp
	fix     string
}

// remedies are in order: the first that matches counts.
var remedies = []remedy{
	{regexp.MustCompile(`valid duration greater than (\S+)$`), "write $1 or more, as 1.5s, 30ms or 5m"},
	{regexp.MustCompile(`^port must be between 1-65535`), "write a number from 1 to 65535"},
	{regexp.MustCompile(`^port number cannot be duplicated`), "give each port a number of its own"},
	{regexp.MustCompile(`^port name must be valid`), "write small letters, digits and '-'"},
	{regexp.MustCompile(`cross namespace referencing`), "leave namespace out, and write the object in the namespace of its target"},
	{regexp.MustCompile(`wildcard (is )?not (allowed|supported)`), "write the label as the workloads have it"},
	{regexp.MustCompile(`key must not be empty`), "write the name of the label"},
	{regexp.MustCompile(`UDS must be an absolute path`), "write unix:///path/to/socket"},
	{regexp.MustCompile(`UDS may not be a dir`), "write the path of the socket, without a / at its end"},
	{regexp.MustCompile(`UDS may not include ports`), "leave ports out"},
	{regexp.MustCompile(`(?i)^(only|exactly) one of (\w+),? (or|and) (\w+)`), "set either $2 or $4"},
	{regexp.MustCompile(`^Address is required`), "set address, or network"},
	{regexp.MustCompile(`^url must have schem[ae] (.+)$`), "begin it with one of these and ://"},
	{regexp.MustCompile(`^scheme must be one of \[(.+)\]`), "write one of $1"},
	{regexp.MustCompile(`hostname cannot be wildcard`), "name the host"},
	{regexp.MustCompile(`^NONE mode cannot set endpoints`), "leave endpoints out, or write resolution STATIC or DNS"},
	{regexp.MustCompile(`^DNS_ROUND_ROBIN mode cannot have multiple`), "leave one endpoint, or write resolution DNS"},
	{regexp.MustCompile(`^CIDR addresses are allowed only`), "write single addresses, or resolution NONE or STATIC"},
	{regexp.MustCompile(`^value must not be set`), "leave value out"},
	{regexp.MustCompile(`^value must be set`), "set value"},
	{regexp.MustCompile(`^value may only be set when valueFrom is INLINE`), "leave value out, or write valueFrom: INLINE"},
	{regexp.MustCompile(`^portLevelMtls requires selector`), "add selector.matchLabels to select the workloads with these ports"},
	{regexp.MustCompile(`^Cannot set serviceAccounts with namespaces`), "leave namespaces out: an account of another namespace is namespace/name"},
	{regexp.MustCompile(`^only support waypointMatch`), "leave waypointMatch out"},
	{regexp.MustCompile(`^should be at least (\d+) chars long`), "write $1 or more characters"},
	{regexp.MustCompile(`^should be at most (\d+) chars long`), "write at most $1 characters"},
	{regexp.MustCompile(`^should be greater than or equal to (\S+)`), "write $1 or more"},
	{regexp.MustCompile(`^should be less than or equal to (\S+)`), "write $1 or less"},
	{regexp.MustCompile(`^should have at least (\d+) items?`), "write at least $1"},
	{regexp.MustCompile(`^should have at most (\d+) items?`), "write at most $1"},
	{regexp.MustCompile(`^should match '\(\^\$\|\^\[a-f0-9\]\{64\}\$\)'`), "write 64 small hexadecimal digits, or leave it out"},
	{regexp.MustCompile(`^should match '(.+)'`), "write a value that the pattern matches"},
	{regexp.MustCompile(`^Too long: may not be more than (\d+)`), "write at most $1"},
}

// remedyOf returns what to write instead of a value that a rule refuses; empty: its message has to do.
func remedyOf(message string) string {
	message = strings.TrimSpace(message)
	for _, r := range remedies {
		if m := r.message.FindStringSubmatchIndex(message); m != nil {
			return string(r.message.ExpandString(nil, r.fix, message, m))
		}
	}
	return ""
}
