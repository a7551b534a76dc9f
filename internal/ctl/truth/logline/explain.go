package logline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"fairway/internal/accesslog"
	"fairway/internal/admin/page"
)

// The verdicts about a line.
const (
	Application = "application" // the application answered
	Proxy       = "proxy"       // the proxy answered, or ended the request, and the cause is known
	Unknown     = "unknown"     // the line names no cause that is known
)

// Explanation holds the cause of a line and the objects behind it.
type Explanation struct {
	Verdict string            `json:"verdict"`
	Lines   int               `json:"lines"` // how many lines are alike
	Line    accesslog.Entry   `json:"line"`
	Causes  []accesslog.Cause `json:"causes"` // the most exact first

	Proxy string `json:"proxy,omitempty"` // the node id of the proxy that wrote the line, if it is known
	Side  string `json:"side,omitempty"`  // of the request: client, server or gateway

	Findings []Finding `json:"findings"` // objects, the most probable first
	Notes    []string  `json:"notes,omitempty"`
}

// Finding is one reason for the line: an object with its field, and a sentence about it.
type Finding struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Field     string `json:"field,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Means     string `json:"means"`
	Right     string `json:"right,omitempty"`
	Problem   string `json:"problem,omitempty"` // what pilotctl problems says of the field, with the fix
}

// Options say more than the line does.
type Options struct {
	Proxy   string   // that wrote the line; empty: the one with the line's addresses
	Trust   string   // trust domain of callers; empty: the mesh's
	Headers []string // of the request, as NAME:VALUE
}

// Explain explains a line. Without a control plane (pages is nil) the table and the line are all there is.
func Explain(ctx context.Context, pages *Pages, e accesslog.Entry, o Options) Explanation {
	x := &explainer{ctx: ctx, Pages: pages, o: o, e: e, out: Explanation{Lines: 1, Line: e, Causes: e.Causes(), Findings: []Finding{}}}
	switch {
	case e.ByApplication():
		x.out.Verdict = Application
	case len(x.out.Causes) > 0:
		x.out.Verdict = Proxy
	default:
		x.out.Verdict = Unknown
		x.out.Causes = []accesslog.Cause{}
	}
	x.names()
	if pages == nil || x.out.Verdict == Application && len(e.Flags) == 0 && e.Code < 400 {
		return x.out
	}
	x.findProxy()
	if x.out.Verdict == Application && len(e.Flags) == 0 {
		x.behind()
		return x.out
	}
	x.replay()
	x.objects()
	return x.out
}

// behind looks at the server's side of a request that its endpoint answered: there may be a proxy, and its answers are no others to the
// client's proxy than those of the application.
func (x *explainer) behind() {
	if x.e.Inbound() {
		return
	}
	host, port := splitPort(x.e.UpstreamHost)
	server := x.at(host)
	if server == nil {
		x.note("a proxy beside the application answers so too, if it denies the request: then its own log has the reason")
		return
	}
	e := x.e
	e.Details, e.Cluster, e.UpstreamHost, e.DownstreamLocal = "", "inbound|"+port+"||", "", x.e.UpstreamHost
	y := &explainer{Pages: x.Pages, ctx: x.ctx, o: x.o, e: e, out: Explanation{Verdict: Proxy, Side: "server"}, proxy: server}
	if x.proxy != nil {
		y.peer, y.e.DownstreamRemote = x.proxy.Identity, page.NodeAddress(x.proxy.ProxyID)
	}
	y.replay()
	if y.way == nil || !y.fits || y.way.Outcome.Kind != "answered" {
		return
	}
	if y.e.Details = y.way.Outcome.Details; y.way.Outcome.Flag != "" {
		y.e.Flags = []string{y.way.Outcome.Flag}
	}
	y.out.Causes = y.e.Causes()
	y.objects()
	x.note("the proxy of the server, " + page.ShortName(server.ProxyID) + ", answers so: " + y.e.Details)
	x.out.Verdict, x.out.Causes, x.out.Findings = Proxy, y.out.Causes, append(x.out.Findings, y.out.Findings...)
}

// explainer explains one line.
type explainer struct {
	*Pages
	ctx context.Context
	o   Options
	e   accesslog.Entry
	out Explanation

	proxy  *page.ProxySync // that wrote the line
	peer   string          // the identity of the caller, namespace/service account
	answer *page.RequestExplanation
	way    *page.RequestWay // the one that fits the line
	fits   bool             // the way ends as the line says
}

// names adds the objects that the line itself names.
func (x *explainer) names() {
	if _, policy := policyOf(x.e); policy.Name != "" && x.Pages == nil {
		x.add(Finding{
			Kind: policy.Kind, Namespace: policy.Namespace, Name: policy.Name, Field: policy.field,
			Means: "this rule decided about the request",
		})
	}
}

// note adds a sentence about the answer itself.
func (x *explainer) note(text string) {
	if !slices.Contains(x.out.Notes, text) && len(x.out.Notes) < mostNotes {
		x.out.Notes = append(x.out.Notes, text)
	}
}

// Bounds of an answer.
const (
	mostNotes    = 10
	mostFindings = 8
)

// add adds a finding.
func (x *explainer) add(f Finding) {
	same := func(o Finding) bool {
		return o.Kind == f.Kind && o.Namespace == f.Namespace && o.Name == f.Name && o.Field == f.Field &&
			(f.Kind != "" || o.Means == f.Means)
	}
	if len(x.out.Findings) < mostFindings && !slices.ContainsFunc(x.out.Findings, same) {
		x.out.Findings = append(x.out.Findings, f)
	}
}

// objects looks for the objects at the places of the causes. The first place with a finding is the answer.
func (x *explainer) objects() {
	known := lookers()
	for _, c := range x.out.Causes {
		look := known[c.Place]
		if look == nil {
			continue
		}
		look(x, c)
		if len(x.out.Findings) > 0 {
			return
		}
	}
	if len(x.out.Causes) > 0 && known[x.out.Causes[0].Place] != nil {
		x.madeFrom()
	}
}

// failed notes that a page cannot be read.
func (x *explainer) failed(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		x.note(what + ": " + err.Error())
	}
}

// host returns the host of the request without its port.
func (x *explainer) host() string {
	host, _ := splitPort(x.e.Authority)
	return strings.ToLower(host)
}
