package accesslog

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Entry is what a line says. A text is empty if the line has no value for it.
type Entry struct {
	Format string `json:"format"` // of the line: "Envoy", "Istio", "JSON", or "given" by the user

	Time      string `json:"time,omitempty"`
	Method    string `json:"method,omitempty"`
	Authority string `json:"authority,omitempty"`
	Path      string `json:"path,omitempty"`
	Protocol  string `json:"protocol,omitempty"`

	Code      int      `json:"responseCode,omitempty"`  // 0: a connection, or a request without an answer
	Flags     []string `json:"responseFlags,omitempty"` // short names, as far as the table knows them
	Details   string   `json:"responseCodeDetails,omitempty"`
	Ended     string   `json:"connectionTerminationDetails,omitempty"`
	Transport string   `json:"upstreamTransportFailureReason,omitempty"`

	Route            string `json:"routeName,omitempty"`
	Cluster          string `json:"upstreamCluster,omitempty"`
	UpstreamHost     string `json:"upstreamHost,omitempty"`
	UpstreamLocal    string `json:"upstreamLocalAddress,omitempty"`
	DownstreamLocal  string `json:"downstreamLocalAddress,omitempty"`
	DownstreamRemote string `json:"downstreamRemoteAddress,omitempty"`
	ServerName       string `json:"requestedServerName,omitempty"`
}

// The fields of a line, by the operator that writes them. Operators of headers have the header in brackets.
var setters = map[string]func(*Entry, string){
	"START_TIME":                        func(e *Entry, v string) { e.Time = v },
	"REQ(:METHOD)":                      func(e *Entry, v string) { e.Method = v },
	"REQ(:AUTHORITY)":                   func(e *Entry, v string) { e.Authority = v },
	"REQ(HOST)":                         func(e *Entry, v string) { e.Authority = v },
	"REQ(:PATH)":                        func(e *Entry, v string) { e.Path = v },
	"REQ(X-ENVOY-ORIGINAL-PATH?:PATH)":  func(e *Entry, v string) { e.Path = v },
	"REQ_WITHOUT_QUERY":                 func(e *Entry, v string) { e.Path = v },
	"PATH":                              func(e *Entry, v string) { e.Path = v },
	"PROTOCOL":                          func(e *Entry, v string) { e.Protocol = v },
	"RESPONSE_CODE":                     func(e *Entry, v string) { e.Code = code(v) },
	"RESPONSE_FLAGS":                    func(e *Entry, v string) { e.Flags = flags(v) },
	"RESPONSE_FLAGS_LONG":               func(e *Entry, v string) { e.Flags = flags(v) },
	"RESPONSE_CODE_DETAILS":             func(e *Entry, v string) { e.Details = strings.ReplaceAll(v, " ", "_") },
	"CONNECTION_TERMINATION_DETAILS":    func(e *Entry, v string) { e.Ended = v },
	"UPSTREAM_TRANSPORT_FAILURE_REASON": func(e *Entry, v string) { e.Transport = v },
	"ROUTE_NAME":                        func(e *Entry, v string) { e.Route = v },
	"UPSTREAM_CLUSTER":                  func(e *Entry, v string) { e.Cluster = plainCluster(v) },
	"UPSTREAM_CLUSTER_RAW":              func(e *Entry, v string) { e.Cluster = v },
	"UPSTREAM_HOST":                     func(e *Entry, v string) { e.UpstreamHost = v },
	"UPSTREAM_REMOTE_ADDRESS":           func(e *Entry, v string) { e.UpstreamHost = v },
	"UPSTREAM_LOCAL_ADDRESS":            func(e *Entry, v string) { e.UpstreamLocal = v },
	"DOWNSTREAM_LOCAL_ADDRESS":          func(e *Entry, v string) { e.DownstreamLocal = v },
	"DOWNSTREAM_REMOTE_ADDRESS":         func(e *Entry, v string) { e.DownstreamRemote = v },
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS":  func(e *Entry, v string) { e.DownstreamRemote = v },
	"REQUESTED_SERVER_NAME":             func(e *Entry, v string) { e.ServerName = v },
}

// set sets the field of an operator. A dash is Envoy's word for no value; the first value wins.
func (e *Entry) set(operator, value string) {
	if value = strings.TrimSpace(value); value == "" || value == "-" {
		return
	}
	if set := setters[operator]; set != nil {
		set(e, value)
	}
}

// plainCluster returns a cluster's name without the mark that ends names for statistics.
func plainCluster(name string) string { return strings.TrimSuffix(name, ";") }

func code(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 999 {
		return 0
	}
	return n
}

// flags returns the short names of flags; a name that the table does not have stays as it is.
func flags(text string) (out []string) {
	for name := range strings.SplitSeq(text, ",") {
		if c, known := Find(Flag, strings.TrimSpace(name)); known {
			name = c.Name
		}
		if name = strings.TrimSpace(name); name != "" && name != "-" && !slices.Contains(out, name) && len(out) < mostFlags {
			out = append(out, name)
		}
	}
	return out
}

// mostFlags is how many flags a line may have.
const mostFlags = 64

// says reports whether an entry has a result at all.
func (e Entry) says() bool {
	return e.Code > 0 || len(e.Flags) > 0 || e.Details != "" || e.Ended != "" || e.UpstreamHost != ""
}

// Kind returns a text that lines have in common if they are explained alike: the same result for the same host, route and cluster. Paths
// are compared if no route matched.
func (e Entry) Kind() string {
	path := ""
	if slices.Contains(e.Flags, "NR") || e.Details == "direct_response" || strings.HasPrefix(e.Details, "rbac_") {
		path, _, _ = strings.Cut(e.Path, "?")
	}
	parts := []string{strconv.Itoa(e.Code), e.Details, e.Ended, e.Transport, e.Method, e.Authority, e.Route, e.Cluster, path}
	return strings.Join(append(parts, e.Flags...), "\x00")
}

// Inbound reports whether the line is of the server's side: the request came to the workload of the proxy.
func (e Entry) Inbound() bool {
	return strings.HasPrefix(e.Cluster, "inbound|") || strings.HasPrefix(e.Cluster, "InboundPassthroughCluster")
}

// ByApplication reports whether the application answered, or the connection was carried, and the proxy changed nothing.
func (e Entry) ByApplication() bool {
	if slices.ContainsFunc(e.Flags, func(f string) bool { return f != "DI" }) || e.Ended != "" || e.Transport != "" {
		return false
	}
	switch {
	case e.Details == "via_upstream", e.Details == "cache.insert_via_upstream":
		return true
	case e.Details != "":
		return false
	}
	return e.UpstreamHost != ""
}

// Causes returns the rows of the table that the line names, the most exact first. None: the line names nothing that the table has.
func (e Entry) Causes() (out []Cause) {
	add := func(kind, name, text string) {
		c, known := Find(kind, name)
		if !known || slices.ContainsFunc(out, func(o Cause) bool { return o.Means == c.Means }) {
			return
		}
		c.Name, c.Text = strings.Trim(c.Name, "*"), text
		out = append(out, c)
	}
	name, inner := Brackets(e.Details)
	reason, transport, _ := strings.Cut(inner, "|")
	reset := strings.HasPrefix(name, "upstream_reset_")
	if !reset {
		transport = ""
	}
	if transport = cmp.Or(e.Transport, transport); transport != "" {
		add(Transport, transport, transport)
	}
	switch {
	case reset:
		add(Reset, reason, inner)
	case name == "downstream_local_disconnect":
		add(Close, inner, inner)
	}
	for _, text := range []string{e.Details, e.Ended} {
		name, inner := Brackets(text)
		if name == "" {
			continue
		}
		add(Detail, name, inner)
		add(Close, name, inner)
	}
	for _, f := range e.Flags {
		// Envoy itself resets streams that break rules of HTTP/2, and says DR of those too.
		if f != "DR" || len(out) == 0 || strings.HasSuffix(name, ".remote_reset") || strings.HasSuffix(name, ".remote_refuse") {
			add(Flag, f, "")
		}
	}
	if len(out) == 0 && e.Details == "" && !e.ByApplication() {
		add(Answer, strconv.Itoa(e.Code), "")
	}
	return out
}

// Brackets takes a detail apart: its name, and the text in brackets behind it.
func Brackets(detail string) (name, inner string) {
	at := strings.IndexAny(detail, "{[(")
	if at < 0 {
		return strings.TrimSuffix(detail, ":"), ""
	}
	name, inner = detail[:at], detail[at+1:]
	end := strings.LastIndexAny(inner, "}])")
	if end >= 0 {
		inner = inner[:end]
	}
	return name, inner
}
