package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy/route"
	"fairway/internal/interpret"
	"fairway/internal/interpret/way"
)

// MostRequests is how many requests are followed through one virtual host.
const MostRequests = 300

// virtualHosts compares virtual hosts by the hosts that they are for.
func (s *sentences) virtualHosts(g *group, old, now []*routev3.VirtualHost) {
	byName := func(list []*routev3.VirtualHost) map[string]*routev3.VirtualHost {
		out := map[string]*routev3.VirtualHost{}
		for _, v := range list {
			out[hostName(v)] = v
		}
		return out
	}
	before, after := byName(old), byName(now)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s.virtualHost(g, before[name], after[name])
	}
}

// virtualHost says which requests go elsewhere.
func (s *sentences) virtualHost(g *group, old, now *routev3.VirtualHost) {
	switch {
	case unknownHosts(old) && unknownHosts(now):
		return // it comes and goes with the port
	case now == nil:
		s.add(false, g.crowds, "requests to %s have no routes of their own any more", hostName(old))
		return
	}
	before, after := newWays(old), newWays(now)
	short := shortener(hostName(now))
	for _, r := range requests(old, now) {
		was, _ := before.follow(r.Request)
		is, clusters := after.follow(r.Request)
		was, is = short(was), short(is)
		what := "requests to " + hostName(now) + r.about
		switch {
		case is == was:
			continue
		case old == nil:
			s.add(false, g.crowds, "%s %s from then on", what, is)
		case strings.HasPrefix(is, goTo) && strings.HasPrefix(was, goTo):
			s.add(false, g.crowds, "%s %s instead of %s", what, is, strings.TrimPrefix(was, goTo))
		default:
			s.add(false, g.crowds, "%s %s; now they %s", what, is, was)
		}
		for _, c := range clusters {
			if why := s.unserved(s.crowds[g.crowds[0]][0], c); why != "" {
				s.add(true, g.crowds, "%s go to %s, %s", what, short(clusterName(c)), why)
			}
		}
	}
}

// shortener returns a function that leaves out the host before a subset in a text about requests to that host.
func shortener(host string) func(string) string {
	name, _, _ := strings.Cut(host, ":")
	own := regexp.MustCompile(regexp.QuoteMeta(name) + `:\d+ subset `)
	return func(text string) string { return own.ReplaceAllString(text, "subset ") }
}

// unknownHosts reports whether a virtual host is for all hosts that no other one is for, or for none, or there is none.
func unknownHosts(v *routev3.VirtualHost) bool {
	return v == nil || v.GetName() == "allow_any" || v.GetName() == "block_all" ||
		slices.Equal(v.GetDomains(), []string{string(route.NoHost)})
}

// hostName is how users know a virtual host: its first domain, with its port if it has one.
func hostName(v *routev3.VirtualHost) string {
	if _, rest, ok := strings.Cut(v.GetName(), "/"); ok {
		return rest
	}
	if d := v.GetDomains(); len(d) > 0 && d[0] != "*" {
		return d[0]
	}
	return cmp.Or(v.GetName(), "every host")
}

// ways follows requests through one virtual host.
type ways struct{ config interpret.Config }

// The names in a configuration that consists of one virtual host.
const (
	theListener = "plan"
	theRoutes   = "routes"
)

// newWays returns the configuration of a proxy that has one virtual host, and all clusters that it names. nil: it has none.
func newWays(v *routev3.VirtualHost) *ways {
	if v == nil {
		return nil
	}
	filter := func(name string, m proto.Message) *anypb.Any {
		out, err := anypb.New(m)
		if err != nil {
			panic(fmt.Sprintf("plan: %s: %v", name, err)) // a message of ours
		}
		return out
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: theListener,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: theRoutes, ConfigSource: &corev3.ConfigSource{
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			},
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: filter("router", &routerv3.Router{})},
		}},
	}
	listener := &listenerv3.Listener{Name: theListener, FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: filter("http_connection_manager", manager)},
	}}}}}
	clusters := map[string]*clusterv3.Cluster{}
	for _, name := range named(v) {
		clusters[name] = &clusterv3.Cluster{
			Name: name, LbPolicy: clusterv3.Cluster_CLUSTER_PROVIDED,
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		}
	}
	return &ways{interpret.Config{
		Listeners: map[string]*listenerv3.Listener{theListener: listener},
		Routes:    map[string]*routev3.RouteConfiguration{theRoutes: {Name: theRoutes, VirtualHosts: []*routev3.VirtualHost{v}}},
		Clusters:  clusters,
	}}
}

// named lists the clusters that a virtual host names.
func named(v *routev3.VirtualHost) (out []string) {
	for _, r := range v.GetRoutes() {
		out = append(out, r.GetRoute().GetCluster())
		for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
			out = append(out, c.GetName())
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}

// goTo begins the words for a request that a cluster gets.
const goTo = "go to "

// follow says what becomes of a request: "go to a (90 %) and b (10 %)", and which clusters may get it.
func (w *ways) follow(r interpret.Request) (text string, clusters []string) {
	if w == nil {
		return "", nil
	}
	answer, err := interpret.Explain(w.config, r)
	if err != nil {
		return "cannot be followed (" + err.Error() + ")", nil
	}
	shares, order := map[string]float64{}, []string{}
	for _, one := range answer.Ways {
		text := outcome(r, one.Outcome)
		if _, is := shares[text]; !is {
			order = append(order, text)
		}
		shares[text] += one.Probability
		if one.Outcome.Kind == way.Forwarded && !slices.Contains(clusters, one.Outcome.Cluster) {
			clusters = append(clusters, one.Outcome.Cluster)
		}
	}
	if len(order) == 1 {
		return order[0], clusters
	}
	slices.Sort(order)
	for i, text := range order {
		if i > 0 && strings.HasPrefix(order[0], goTo) {
			text = strings.TrimPrefix(text, goTo)
		}
		order[i] = fmt.Sprintf("%s (%.4g %%)", text, math.Round(shares[order[i]]*1000)/10)
	}
	return strings.Join(order, " and "), clusters
}

func outcome(r interpret.Request, o way.Outcome) string {
	switch o.Kind {
	case way.Forwarded:
		out := goTo + clusterName(o.Cluster)
		if o.Path != "" && o.Path != r.Path {
			out += " as " + o.Path
		}
		if o.Authority != "" && o.Authority != r.Authority {
			out += " as host " + o.Authority
		}
		return out
	case way.Answered:
		if o.Location != "" {
			return fmt.Sprintf("are redirected to %s (%d)", o.Location, o.Status)
		}
		if o.Flag != "" {
			return fmt.Sprintf("are answered %d %s", o.Status, o.Flag)
		}
		return fmt.Sprintf("are answered %d", o.Status)
	case way.Closed:
		return "are cut off"
	}
	return "cannot be followed (" + o.Reason + ")"
}

// sample is a request that stands for those which meet the conditions of a route.
type sample struct {
	interpret.Request
	about string // the conditions: ` with header "x" = "y"`
}

// requests makes one request for each route, old and new, that meets the conditions of the route. It also makes a plain GET of /.
func requests(hosts ...*routev3.VirtualHost) (out []sample) {
	authority := "host.example"
	for _, v := range hosts {
		if d := v.GetDomains(); len(d) > 0 {
			authority = strings.ReplaceAll(d[0], "*", "any")
		}
	}
	seen := map[string]bool{}
	add := func(m *routev3.RouteMatch) {
		r, ok := request(m, authority)
		if key := fmt.Sprint(r.Method, r.Path, r.Authority, r.Headers); ok && !seen[key] && len(out) < MostRequests {
			seen[key] = true
			out = append(out, r)
		}
	}
	add(&routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}})
	for _, v := range hosts {
		for _, r := range v.GetRoutes() {
			add(r.GetMatch())
		}
	}
	return out
}

// request makes a request that meets a route's conditions; false: none could be made.
func request(m *routev3.RouteMatch, authority string) (out sample, ok bool) {
	out.Request = interpret.Request{Listener: theListener, Method: "GET", Authority: authority, Headers: map[string][]string{}}
	if out.Path, ok = path(m); !ok {
		return out, false
	}
	for _, h := range m.GetHeaders() {
		value, ok := headerValue(h)
		switch name := h.GetName(); {
		case !ok:
			return out, false
		case h.GetInvertMatch() || h.GetPresentMatch() && value == "":
		case name == ":method":
			out.Method = value
		case name == ":authority":
			out.Authority = value
		case name == ":path":
			out.Path = value
		case strings.HasPrefix(name, ":"): // the scheme is the connection's
		default:
			out.Headers[name] = []string{value}
		}
	}
	for i, q := range m.GetQueryParameters() {
		value, ok := matched(q.GetStringMatch())
		if !ok {
			return out, false
		}
		out.Path += map[bool]string{true: "?", false: "&"}[i == 0 && !strings.Contains(out.Path, "?")] + q.GetName() + "=" + value
	}
	if text := interpret.Describe(m); text != `path prefix "/"` {
		out.about = " with " + strings.TrimPrefix(text, `path prefix "/", `)
	}
	return out, true
}

func path(m *routev3.RouteMatch) (string, bool) {
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return p.Prefix, true
	case *routev3.RouteMatch_Path:
		return p.Path, true
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return p.PathSeparatedPrefix, true
	case *routev3.RouteMatch_SafeRegex:
		return matchOf(p.SafeRegex.GetRegex())
	}
	return "", false
}

// headerValue returns a value that a header must have; "" if it must be absent.
func headerValue(h *routev3.HeaderMatcher) (string, bool) {
	switch p := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return matched(p.StringMatch)
	case *routev3.HeaderMatcher_RangeMatch:
		return fmt.Sprint(p.RangeMatch.GetStart()), true
	case *routev3.HeaderMatcher_PresentMatch:
		if p.PresentMatch {
			return "any", true
		}
		return "", true
	}
	return "any", true
}

func matched(m *matcherv3.StringMatcher) (string, bool) {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return p.Exact, true
	case *matcherv3.StringMatcher_Prefix:
		return p.Prefix, true
	case *matcherv3.StringMatcher_Suffix:
		return p.Suffix, true
	case *matcherv3.StringMatcher_Contains:
		return p.Contains, true
	case *matcherv3.StringMatcher_SafeRegex:
		return matchOf(p.SafeRegex.GetRegex())
	}
	return "any", true
}

// mostMatch is how long a text may be that is made for a regular expression.
const mostMatch = 1 << 10

// matchOf makes a short text that a regular expression matches as a whole; false: none was found.
func matchOf(pattern string) (string, bool) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	ok := example(parsed.Simplify(), &b)
	return b.String(), ok
}

// example writes a text that an expression matches.
func example(re *syntax.Regexp, b *strings.Builder) bool {
	if b.Len() > mostMatch {
		return false
	}
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpStar, syntax.OpQuest,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
		return true
	case syntax.OpCharClass:
		return len(re.Rune) > 0 && printableOf(re.Rune, b)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
		return true
	case syntax.OpCapture, syntax.OpPlus:
		return example(re.Sub[0], b)
	case syntax.OpAlternate:
		return example(re.Sub[0], b)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !example(sub, b) {
				return false
			}
		}
		return true
	}
	return false
}

// printableOf writes a letter, a digit or another printable character of a class.
func printableOf(ranges []rune, b *strings.Builder) bool {
	for _, want := range [][2]rune{{'a', 'z'}, {'0', '9'}, {'A', 'Z'}, {'!', '~'}} {
		for i := 0; i+1 < len(ranges); i += 2 {
			if low, high := max(ranges[i], want[0]), min(ranges[i+1], want[1]); low <= high {
				b.WriteRune(low)
				return true
			}
		}
	}
	return false
}
