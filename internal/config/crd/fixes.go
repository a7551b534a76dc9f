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
	// The Gateway API's.
	{regexp.MustCompile(`^(\w[\w.]*) must be nil if (?:the )?(filter\.type|type) is not (\w+)$`), "leave $1 out, or write type: $3"},
	{regexp.MustCompile(`^(\w[\w.]*) must be specified (?:for (\w+) (?:filter\.)?type|when type is set to '(\w+)')$`), "set $1"},
	{regexp.MustCompile(`^type must be '(\w+)' when (\w+) is set$`), "write type: $1, or leave $2 out"},
	{regexp.MustCompile(`^(grpc|http) must be specified when protocol is set to '(\w+)'$`), "set $1"},
	{regexp.MustCompile(`^protocol must be '(\w+)' when (\w+) is set$`), "write protocol: $1, or leave $2 out"},
	{regexp.MustCompile(`^(\w+) filter cannot be repeated$`), "keep one $1 filter"},
	{regexp.MustCompile(`^Allow(\w+) cannot contain '\*' alongside`), "write '*' alone, or leave it out"},
	{regexp.MustCompile(`^must not (contain|end with) '(\S+)'`), "write the path without $2, or type: RegularExpression"},
	{regexp.MustCompile(`^value must be an absolute path`), "begin it with a /"},
	{regexp.MustCompile(`^type must be one of \[(.+)\]`), "write one of $1"},
	{regexp.MustCompile(`exactly one PathPrefix match must be specified`), "give the rule one match, with a path of type PathPrefix"},
	{regexp.MustCompile(`^RequestRedirect filter must not be used together with backendRefs`), "leave backendRefs out: nothing is sent to them"},
	{regexp.MustCompile(`^May specify either httpRouteFilterRequestRedirect`), "keep RequestRedirect or URLRewrite"},
	{regexp.MustCompile(`^backendRequest timeout cannot be longer`), "write a backendRequest that is at most as long as request"},
	{regexp.MustCompile(`^Must have port for Service`), "set the port of the Service"},
	{regexp.MustCompile(`^Must not have port for Backend`), "leave port out"},
	{regexp.MustCompile(`^One or both of 'service' or 'method'`), "set service, or method"},
	{regexp.MustCompile(`^Only one of percent or fraction`), "keep percent or fraction"},
	{regexp.MustCompile(`^numerator must be less`), "write a numerator that is at most the denominator"},
	{regexp.MustCompile(`^Rule name must be unique`), "give each rule a name of its own"},
	{regexp.MustCompile(`^While 16 rules and 64 matches`), "write two routes"},
	{regexp.MustCompile(`^(sectionName(?: or port)?) must be (specified|unique) when`), "set a $1 of its own for each"},
	{regexp.MustCompile(`^AbsoluteTimeout must be specified`), "set absoluteTimeout, or write lifetimeType: Session"},
	{regexp.MustCompile(`^Listener name must be unique`), "give each listener a name of its own"},
	{regexp.MustCompile(`^Combination of port, protocol and hostname`), "give one of them another port or hostname"},
	{regexp.MustCompile(`^certificateRefs or options must be`), "set certificateRefs"},
	{regexp.MustCompile(`^tls mode must be Terminate for protocol HTTPS`), "write mode: Terminate, or protocol: TLS"},
	{regexp.MustCompile(`^tls mode must be set for protocol TLS`), "set tls.mode: Terminate or Passthrough"},
	{regexp.MustCompile(`^(tls|hostname) must not be specified for protocols`), "leave $1 out, or write another protocol"},
	{regexp.MustCompile(`^filters may only be set when protocol`), "leave filters out, or write protocol: HTTP or HTTPS"},
	{regexp.MustCompile(`^Port for TLS configuration must be unique`), "write each port once"},
	{regexp.MustCompile(`^(\w+) values must be unique`), "write each value once"},
	{regexp.MustCompile(`^Hostname(s| value)? must be (empty or contain only )?valid`), "write small letters, digits, '-' and '.'"},
	{regexp.MustCompile(`^Hostnames cannot contain an IP`), "write names"},
	{regexp.MustCompile(`^Wildcards on hostnames must be the first label`), "write *. at the front: *.example.com"},
	{regexp.MustCompile(`^(Label|Annotation) keys must be|^If specified, the (label|annotation) key's prefix`), "write it as example.com/name"},
	{regexp.MustCompile(`^Routability must be`), "write Cluster, or leave it out"},
	{regexp.MustCompile(`^ClusterTrustBundle references must not`), "leave namespace out"},
	{regexp.MustCompile(`^SubjectAltName element must contain (\w+)`), "set the field of the type"},
	{regexp.MustCompile(`^SubjectAltName element must not contain (\w+)`), "write type: $1, or leave the field out"},
	{regexp.MustCompile(`^exactly one of the fields in \[(\w+) (\w+)\] must be set`), "set either $1 or $2"},
	{regexp.MustCompile(`must only contain valid characters \(matching (\S+)\)`), "write characters that $1 matches"},

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
