package dynamic

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	dfphttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// Answers says which resolved addresses of a name may be used.
type Answers uint8

// The values of Answers.
const (
	None   Answers = iota // names are not resolved at all
	Others                // all but addresses of the proxy's own machine or link
	All                   // all addresses
)

// The metadata that holds the port of a cluster's connections, and the name that a request is for.
const (
	Metadata = "fairway" // the cluster's namespace, as tls.Metadata
	portKey  = "port"
	named    = "fairway.dynamic" // the request's namespace
	hostKey  = "host"
)

// local are loopback, unspecified and link-local addresses, and those of clouds' metadata services. IPv4 addresses are also listed as the
// IPv6 addresses that the kernel treats as the same.
var local = localNetworks()

func localNetworks() []string {
	out := []string{"0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128"}
	for _, p := range mesh.CredentialNetworks() {
		out = append(out, p.String())
	}
	for _, text := range slices.Clone(out) {
		if address, bits, _ := strings.Cut(text, "/"); !strings.Contains(address, ":") {
			n, _ := strconv.Atoi(bits)
			out = append(out, "::ffff:"+address+"/"+strconv.Itoa(n+96))
		}
	}
	return out
}

// cache returns the DNS cache that all parts of a proxy share. Envoy refuses two caches of the same name with different settings, so each
// kind has its own name. IPv4 comes first, as in clusters of resolution DNS.
func (a Answers) cache() *dfpv3.DnsCacheConfig {
	out := &dfpv3.DnsCacheConfig{Name: "dynamic_dns", DnsLookupFamily: clusterv3.Cluster_V4_PREFERRED}
	if a == All {
		out.Name = "dynamic_dns_all"
		return out
	}
	out.ResolvedAddressFilter = &matcherv3.AddressMatcher{}
	for _, prefix := range local {
		address, bits, _ := strings.Cut(prefix, "/")
		n, _ := strconv.Atoi(bits)
		out.ResolvedAddressFilter.Ranges = append(out.ResolvedAddressFilter.Ranges,
			&xdscorev3.CidrRange{AddressPrefix: address, PrefixLen: wrapperspb.UInt32(uint32(n))})
	}
	return out
}

// Cluster returns the type of a cluster that connects to the names in requests and connections. verified means that its HTTP options take
// the server name from the request and check it in the certificate. Otherwise Envoy accepts the cluster only with
// allow_insecure_cluster_options.
func Cluster(a Answers, verified bool) *clusterv3.Cluster_ClusterType {
	config := &dfpclusterv3.ClusterConfig{
		ClusterImplementationSpecifier: &dfpclusterv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: a.cache()},
		AllowInsecureClusterOptions:    !verified,
	}
	return &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: "envoy.clusters.dynamic_forward_proxy", TypedConfig: envoy.Any(config),
	}}
}

// Port returns the metadata of a cluster, under Metadata, that Requests needs: the port that its connections go to.
func Port(n uint32) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{portKey: structpb.NewStringValue(strconv.FormatUint(uint64(n), 10))}}
}

// authority matches a Host header: a name, which may end with a dot, and an optional port.
const authority = `([A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?)\.?(:[0-9]{1,5})?`

// The names of the filters, in connection managers, that set the name and port of a request's connection.
const (
	nameFilter  = "envoy.filters.http.header_to_metadata"
	stateFilter = "envoy.filters.http.set_filter_state"
)

// Naming returns the names of the filters of Requests that set the name and port for services. If they are off, both come from the
// request's Host header; its default port is 80, or 443 if the cluster uses TLS.
func Naming() []string { return []string{nameFilter, stateFilter} }

// Requests returns the filters that resolve the name of a request that is routed to such a cluster. They must come right before the
// router. The connection goes to the cluster's port, whatever port the request names.
func Requests(a Answers) []*hcmv3.HttpFilter {
	if a == None {
		return nil
	}
	return []*hcmv3.HttpFilter{
		httpFilter(nameFilter, &headertometadatav3.Config{
			RequestRules: []*headertometadatav3.Config_Rule{{
				Header: ":authority",
				OnHeaderPresent: &headertometadatav3.Config_KeyValuePair{
					MetadataNamespace: named, Key: hostKey,
					RegexValueRewrite: &matcherv3.RegexMatchAndSubstitute{
						Pattern: &matcherv3.RegexMatcher{Regex: authority}, Substitution: `\1`,
					},
				},
			}},
		}),
		httpFilter(stateFilter, &setfilterstatev3.Config{OnRequestHeaders: []*filterstatev3.FilterStateValue{
			state("envoy.upstream.dynamic_host", "%DYNAMIC_METADATA("+named+":"+hostKey+")%"),
			state("envoy.upstream.dynamic_port", "%CLUSTER_METADATA("+Metadata+":"+portKey+")%"),
		}}),
		httpFilter("envoy.filters.http.dynamic_forward_proxy", &dfphttpv3.FilterConfig{
			ImplementationSpecifier:         &dfphttpv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: a.cache()},
			AllowDynamicHostFromFilterState: true,
		}),
	}
}

func state(key, format string) *filterstatev3.FilterStateValue {
	return &filterstatev3.FilterStateValue{
		Key: &filterstatev3.FilterStateValue_ObjectKey{ObjectKey: key},
		Value: &filterstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: format},
			}},
			OmitEmptyValues: true,
		}},
		SkipIfEmpty: true,
	}
}

func httpFilter(name string, m proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(m)}}
}

// Connection returns the filter that resolves the server name of a TLS connection, which goes to the given port. It must come right before
// the TCP proxy, and only in chains for server names below a wildcard.
func Connection(a Answers, port uint32) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name: "envoy.filters.network.sni_dynamic_forward_proxy",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(&snidfpv3.FilterConfig{
			DnsCacheConfig: a.cache(),
			PortSpecifier:  &snidfpv3.FilterConfig_PortValue{PortValue: port},
		})},
	}
}

// Under returns the condition that a request is for a name that a host covers, usually a wildcard. The name may end with a dot, and have a
// port.
func Under(host mesh.Host) *routev3.HeaderMatcher {
	below := ""
	name := string(host)
	if rest, wild := strings.CutPrefix(name, "*"); wild {
		below, name = `[a-z0-9_-][a-z0-9._-]*`, rest
	}
	regex := "(?i)" + below + regexp.QuoteMeta(name) + `\.?(:[0-9]{1,5})?`
	return &routev3.HeaderMatcher{
		Name: ":authority",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}},
		}},
	}
}
