package listenertest

import (
	"fmt"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"slices"
	"strings"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	dubbov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/dubbo_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	udpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	hashingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
)

// Describe describes in a few lines what a listener does: where it listens, and which connections go where. It leaves out what is the same
// for all listeners.
func Describe(l *listenerv3.Listener) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s%s\n", l.GetName(), place(l.GetAddress()), strings.ToLower(l.GetTrafficDirection().String()), socket(l))
	for _, f := range l.GetListenerFilters() {
		var d udpproxyv3.UdpProxyConfig
		if f.GetTypedConfig().UnmarshalTo(&d) == nil {
			fmt.Fprintf(&b, "  datagrams %s to %s\n", d.GetStatPrefix(), strings.Join(shares(d.GetMatcher()), " + "))
			continue
		}
		fmt.Fprintf(&b, "  look %s%s\n", last(f.GetName()), ports(f.GetFilterDisabled()))
	}
	for _, c := range l.GetFilterChains() {
		chain(&b, c, "chain")
	}
	if c := l.GetDefaultFilterChain(); c != nil {
		chain(&b, c, "default")
	}
	return b.String()
}

// Routes names the route configurations that a listener asks for, in order of its chains.
func Routes(l *listenerv3.Listener) []string {
	var out []string
	for _, c := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		for _, f := range c.GetFilters() {
			var h hcmv3.HttpConnectionManager
			if f.GetTypedConfig().UnmarshalTo(&h) == nil && h.GetRds() != nil {
				out = append(out, h.GetRds().GetRouteConfigName())
			}
		}
	}
	return out
}

func place(a *corev3.Address) string {
	if p := a.GetPipe(); p != nil {
		return "unix:" + p.GetPath()
	}
	return fmt.Sprintf("%s:%d", a.GetSocketAddress().GetAddress(), a.GetSocketAddress().GetPortValue())
}

func socket(l *listenerv3.Listener) string {
	s := ""
	for _, a := range l.GetAdditionalAddresses() {
		s += " and " + place(a.GetAddress())
	}
	if b := l.GetBindToPort(); b != nil && !b.GetValue() {
		s += " unbound"
	}
	if l.GetUseOriginalDst().GetValue() {
		s += " handover"
	}
	if l.GetTransparent().GetValue() {
		s += " transparent"
	}
	if l.GetFreebind().GetValue() {
		s += " freebind"
	}
	if len(l.GetAccessLog()) > 0 {
		s += " logged"
	}
	return s
}

// ports parses the form that ListenerFilters writes: an inspector is disabled for all but some ports.
func ports(p *listenerv3.ListenerFilterChainMatchPredicate) string {
	if p == nil {
		return ""
	}
	n, s := p.GetNotMatch(), " at"
	if n == nil {
		n, s = p, " not at"
	}
	rules := n.GetOrMatch().GetRules()
	if r := n.GetDestinationPortRange(); r != nil {
		rules = []*listenerv3.ListenerFilterChainMatchPredicate{n}
	}
	for _, r := range rules {
		s += fmt.Sprintf(" %d", r.GetDestinationPortRange().GetStart())
	}
	return s
}

func chain(b *strings.Builder, c *listenerv3.FilterChain, word string) {
	fmt.Fprintf(b, "  %s %q%s", word, c.GetName(), match(c.GetFilterChainMatch()))
	if c.GetTransportSocket() != nil {
		b.WriteString(" tls-terminated")
	}
	for _, f := range c.GetFilters() {
		b.WriteString(" → " + filter(f))
	}
	b.WriteString("\n")
}

func match(m *listenerv3.FilterChainMatch) string {
	s := ""
	if p := m.GetDestinationPort(); p != nil {
		s += fmt.Sprintf(" port=%d", p.GetValue())
	}
	for _, r := range m.GetPrefixRanges() {
		s += fmt.Sprintf(" to=%s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue())
	}
	for _, r := range m.GetSourcePrefixRanges() {
		s += fmt.Sprintf(" from=%s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue())
	}
	if len(m.GetServerNames()) > 0 {
		s += " sni=" + strings.Join(m.GetServerNames(), ",")
	}
	if t := m.GetTransportProtocol(); t != "" {
		s += " transport=" + t
	}
	if len(m.GetApplicationProtocols()) > 0 {
		s += " speaks=" + strings.Join(m.GetApplicationProtocols(), ",")
	}
	return s
}

// shares describes who gets the datagrams, as clients of the first of several addresses share them out.
func shares(m *matcherv3.Matcher) (out []string) {
	if first := m.GetOnNoMatch().GetMatcher(); first != nil {
		m = first
	}
	cluster := func(then *matcherv3.Matcher_OnMatch) string {
		var to udpproxyv3.Route
		if then.GetAction().GetTypedConfig().UnmarshalTo(&to) != nil {
			return "?"
		}
		return to.GetCluster()
	}
	end := uint32(0)
	for _, f := range m.GetMatcherList().GetMatchers() {
		var hash hashingv3.ConsistentHashing
		if f.GetPredicate().GetSinglePredicate().GetCustomMatch().GetTypedConfig().UnmarshalTo(&hash) != nil {
			return []string{"?"}
		}
		if end == 0 {
			end = hash.Modulo
		}
		out = append(out, fmt.Sprintf("%d×%s", end-hash.Threshold, cluster(f.GetOnMatch())))
		end = hash.Threshold
	}
	if end == 0 {
		return []string{cluster(m.GetOnNoMatch())}
	}
	out = append(out, fmt.Sprintf("%d×%s", end, cluster(m.GetOnNoMatch())))
	slices.Reverse(out)
	return out
}

func filter(f *listenerv3.Filter) string {
	var h hcmv3.HttpConnectionManager
	if f.GetTypedConfig().UnmarshalTo(&h) == nil {
		return http(&h)
	}
	var t tcpproxyv3.TcpProxy
	if f.GetTypedConfig().UnmarshalTo(&t) == nil {
		return tcp(&t)
	}
	var d dubbov3.DubboProxy
	if f.GetTypedConfig().UnmarshalTo(&d) == nil {
		return dubbo(&d)
	}
	return f.GetName()
}

func dubbo(d *dubbov3.DubboProxy) string {
	s := "dubbo " + d.GetStatPrefix()
	for _, c := range d.GetMultipleRouteConfig().GetRouteConfig() {
		s += fmt.Sprintf("\n      %s/%s:%s", c.GetGroup(), c.GetInterface(), c.GetVersion())
		for _, r := range c.GetRoutes() {
			s += "\n        "
			switch name := r.GetMatch().GetMethod().GetName(); {
			case name.GetExact() != "":
				s += name.GetExact() + "()"
			case name.GetPrefix() != "":
				s += name.GetPrefix() + "…()"
			default:
				s += "any"
			}
			for _, h := range r.GetMatch().GetHeaders() {
				s += fmt.Sprintf(" %s=%q", h.GetName(), h.GetStringMatch().GetExact())
				if h.GetInvertMatch() {
					s += " not"
				}
			}
			s += " → " + r.GetRoute().GetCluster()
			for i, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
				if i > 0 {
					s += " + "
				}
				s += fmt.Sprintf("%d×%s", w.GetWeight().GetValue(), w.GetName())
			}
		}
	}
	return s
}

func http(h *hcmv3.HttpConnectionManager) string {
	s := "http " + h.GetStatPrefix()
	if r := h.GetRds(); r != nil {
		s += " routes=" + r.GetRouteConfigName()
	}
	if r := h.GetRouteConfig(); r != nil {
		s += " inline=" + r.GetName()
		for _, v := range r.GetVirtualHosts() {
			s += fmt.Sprintf(" %s%v", v.GetName(), v.GetDomains())
			for _, route := range v.GetRoutes() {
				s += "→" + route.GetRoute().GetCluster()
			}
		}
	}
	var names []string
	for _, f := range h.GetHttpFilters() {
		names = append(names, last(f.GetName()))
	}
	return s + " [" + strings.Join(names, " ") + "]" + particular(h) + logged(h.GetAccessLog())
}

// particular describes settings that differ from the usual ones.
func particular(h *hcmv3.HttpConnectionManager) (s string) {
	for _, p := range [...]struct {
		is   bool
		what string
	}{
		{h.GetXffNumTrustedHops() > 0, fmt.Sprint("hops=", h.GetXffNumTrustedHops())},
		{h.GetServerName() != "" && h.GetServerName() != "istio-envoy", "server=" + h.GetServerName()},
		{h.GetServerHeaderTransformation() == hcmv3.HttpConnectionManager_PASS_THROUGH, "keeps-server"},
		{h.GetGenerateRequestId() != nil && !h.GetGenerateRequestId().GetValue(), "no-id"},
		{h.GetAppendXForwardedPort(), "port"},
		{h.GetHttpProtocolOptions().GetAcceptHttp_10(), "http/1.0"},
		{!h.GetNormalizePath().GetValue(), "raw-paths"},
		{h.GetMergeSlashes(), "merges-slashes"},
		{h.GetPathWithEscapedSlashesAction() == hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD, "decodes-slashes"},
	} {
		if p.is {
			s += " " + p.what
		}
	}
	return s
}

func tcp(t *tcpproxyv3.TcpProxy) string {
	s := "tcp " + t.GetStatPrefix() + " to "
	if c := t.GetTunnelingConfig(); c != nil {
		method := "CONNECT"
		if c.GetUsePost() {
			method = "POST"
		}
		s += method + " " + c.GetHostname() + " at "
	}
	if c := t.GetCluster(); c != "" {
		s += c
	}
	for i, c := range t.GetWeightedClusters().GetClusters() {
		if i > 0 {
			s += " + "
		}
		s += fmt.Sprintf("%d×%s", c.GetWeight(), c.GetName())
	}
	if d := t.GetIdleTimeout(); d != nil {
		s += " idle=" + d.AsDuration().String()
	}
	return s + logged(t.GetAccessLog())
}

// logged reports whether lines are written; counting is the same everywhere.
func logged(logs []*accesslogv3.AccessLog) string {
	for _, l := range logs {
		if l.GetName() != "envoy.access_loggers.stats" {
			return " logged"
		}
	}
	return ""
}

func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
