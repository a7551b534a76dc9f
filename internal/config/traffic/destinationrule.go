package traffic

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// DestinationRule holds the rules of https://istio.io/latest/docs/reference/config/networking/destination-rule/
// that the schema cannot say.
func DestinationRule(c *rule.Check, dr *networking.DestinationRule) {
	at := report.Spec()
	if !rule.IsIP(dr.Host) {
		checkHost(c, at.Key("host"), dr.Host)
	}
	export := at.Key("exportTo")
	c.ExportTo(&export, dr.ExportTo, false)
	policy := at.Key("trafficPolicy")
	checkTrafficPolicy(c, &policy, dr.TrafficPolicy)
	seen := map[string]int{}
	for i, s := range dr.Subsets {
		here := at.Of("subsets", i)
		checkSubset(c, &here, s)
		if first, twice := seen[s.Name]; twice {
			c.Fail(here.Key("name"), code.Duplicate,
				fmt.Sprintf("subset %s is written twice: subsets[%d] has the name", strconv.Quote(s.Name), first),
				"give it another name")
			continue
		}
		seen[s.Name] = i
	}
	selector := at.Key("workloadSelector")
	c.Selector(&selector, "matchLabels", dr.WorkloadSelector.GetMatchLabels())
	if dr.WorkloadSelector != nil {
		checkOwnExport(c, &export, dr.ExportTo)
	}
}

// checkOwnExport: a rule for chosen clients is for clients of its own namespace (destination_rule.proto, workload_selector).
func checkOwnExport(c *rule.Check, at *report.Path, list []string) {
	for i, ns := range list {
		if ns != "." && ns != c.Of.Namespace {
			c.Fail(
				at.At(i), code.BadExportTo, "a rule with a workloadSelector is for its own namespace alone",
				`write ".", or leave exportTo out`,
			)
		}
	}
}

func checkSubset(c *rule.Check, at *report.Path, s *networking.Subset) {
	if !isSubsetName(s.Name) {
		c.Fail(at.Key("name"), code.BadName, strconv.Quote(s.Name)+" is not a subset's name", "write letters, digits, '-', '_' and '.'")
	}
	labels := at.Key("labels")
	checkLabels(c, &labels, s.Labels)
	policy := at.Key("trafficPolicy")
	checkTrafficPolicy(c, &policy, s.TrafficPolicy)
}

func checkTrafficPolicy(c *rule.Check, at *report.Path, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	if proto.Size(p) == 0 {
		c.Fail(*at, code.Missing, "the policy is empty", "set loadBalancer, connectionPool, outlierDetection, tls or another field")
	}
	if p.Tunnel != nil && p.ProxyProtocol != nil {
		c.Fail(at.Key("proxyProtocol"), code.Conflict, "tunnel and proxyProtocol exclude each other", "keep one of the two")
	}
	checkPolicyParts(c, at, p.LoadBalancer, p.ConnectionPool, p.OutlierDetection, p.Tls)
	seen := map[uint32]bool{}
	for i, s := range p.PortLevelSettings {
		here := at.Of("portLevelSettings", i)
		port := here.Key("port")
		switch n := s.Port.GetNumber(); {
		case s.Port == nil:
			c.Fail(here, code.Missing, "the settings name no port", "set port.number")
		case seen[n]:
			c.Warn(port.Key("number"), code.Duplicate, fmt.Sprintf("port %d has settings already; the first count", n), "merge the two")
		default:
			c.Port(port.Key("number"), n)
			seen[n] = true
		}
		if s.LoadBalancer == nil && s.ConnectionPool == nil && s.OutlierDetection == nil && s.Tls == nil {
			c.Fail(here, code.Missing, "the settings say nothing", "set loadBalancer, connectionPool, outlierDetection or tls")
		}
		checkPolicyParts(c, &here, s.LoadBalancer, s.ConnectionPool, s.OutlierDetection, s.Tls)
	}
	if t := p.Tunnel; t != nil {
		here := at.Key("tunnel")
		if !rule.OneOf(t.Protocol, "", "CONNECT", "POST") {
			c.Fail(here.Key("protocol"), code.UnknownValue, strconv.Quote(t.Protocol)+" is not a way to tunnel", "write CONNECT or POST")
		}
		c.Port(here.Key("targetPort"), t.TargetPort)
		if !rule.IsIP(t.TargetHost) {
			checkHost(c, here.Key("targetHost"), t.TargetHost)
		}
	}
	if b := p.RetryBudget; b != nil && b.Percent != nil {
		here := at.Key("retryBudget")
		c.Percent(here.Key("percent"), b.Percent.Value)
	}
}

func checkPolicyParts(c *rule.Check, at *report.Path, lb *networking.LoadBalancerSettings, pool *networking.ConnectionPoolSettings,
	outlier *networking.OutlierDetection, tls *networking.ClientTLSSettings) {
	here := at.Key("loadBalancer")
	checkLoadBalancer(c, &here, lb)
	here = at.Key("connectionPool")
	checkConnectionPool(c, &here, pool)
	here = at.Key("outlierDetection")
	checkOutlier(c, &here, outlier)
	here = at.Key("tls")
	ClientTLS(c, &here, tls)
}

func checkLoadBalancer(c *rule.Check, at *report.Path, lb *networking.LoadBalancerSettings) {
	if lb == nil {
		return
	}
	if h := lb.GetConsistentHash(); h != nil {
		here := at.Key("consistentHash")
		if h.HashKey == nil {
			c.Fail(here, code.Missing, "there is nothing to hash", "set httpHeaderName, httpCookie, useSourceIp or httpQueryParameterName")
		}
		if ck := h.GetHttpCookie(); ck != nil && ck.Name == "" {
			cookie := here.Key("httpCookie")
			c.Fail(cookie.Key("name"), code.Missing, "the cookie has no name", "")
		}
		checkCookieAttributes(c, &here, h.GetHttpCookie())
		maglev := here.Key("maglev")
		checkTableSize(c, maglev.Key("tableSize"), h.GetMaglev().GetTableSize())
	}
	Locality(c, at, lb.LocalityLbSetting)
	ZoneAware(c, at, lb.ZoneAwareLbSetting)
	if lb.LocalityLbSetting != nil && lb.ZoneAwareLbSetting != nil {
		both := at.Key("zoneAwareLbSetting")
		c.Fail(both, code.Conflict, "localityLbSetting and zoneAwareLbSetting exclude each other", "keep one of the two")
	}
	old := lb.WarmupDurationSecs //nolint:staticcheck // deprecated by Istio, still taken
	c.Duration(at.Key("warmupDurationSecs"), old, time.Millisecond)
}

// checkCookieAttributes: each attribute of a cookie may be set once (RFC 6265, section 4.1.1).
func checkCookieAttributes(c *rule.Check, at *report.Path, ck *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) {
	cookie, seen := at.Key("httpCookie"), map[string]bool{}
	for i, a := range ck.GetAttributes() {
		here := cookie.Of("attributes", i)
		name := strings.ToLower(a.GetName())
		switch {
		case name == "":
			c.Fail(here.Key("name"), code.Missing, "the attribute has no name", "")
		case seen[name]:
			c.Fail(here.Key("name"), code.Duplicate, "attribute "+strconv.Quote(a.GetName())+" is written twice", "keep one of the two")
		}
		seen[name] = true
	}
}

// checkTableSize checks the size of a maglev table (envoy.config.cluster.v3.Cluster.MaglevLbConfig.table_size); 0 leaves it to Envoy.
func checkTableSize(c *rule.Check, at report.Path, size uint64) {
	const most = 5000011
	switch {
	case size == 0:
	case size > most:
		c.Fail(at, code.BadNumber, fmt.Sprintf("a table of %d is larger than Envoy takes", size),
			fmt.Sprintf("write a prime number of at most %d; the default is 65537", most))
	case !big.NewInt(int64(size)).ProbablyPrime(0):
		c.Fail(at, code.BadNumber, fmt.Sprintf("%d is not a prime number, which the size of a maglev table must be", size),
			fmt.Sprintf("write %d; the default is 65537", nextPrime(int64(size))))
	}
}

// nextPrime is the smallest prime number above n.
func nextPrime(n int64) int64 {
	for n++; !big.NewInt(n).ProbablyPrime(0); n++ { // exact below 2^64
	}
	return n
}

// checkLocality: a traffic distribution is either by shares or by order of failing over.
func Locality(c *rule.Check, at *report.Path, l *networking.LocalityLoadBalancerSetting) {
	if l == nil {
		return
	}
	here := at.Key("localityLbSetting")
	if len(l.Distribute) > 0 && (len(l.Failover) > 0 || len(l.FailoverPriority) > 0) {
		c.Fail(here.Key("distribute"), code.Conflict, "distribute and failover exclude each other", "keep one of the two")
	}
	for i, d := range l.Distribute {
		one := here.Of("distribute", i)
		var sum uint64
		for _, to := range slices.Sorted(maps.Keys(d.To)) {
			sum += uint64(d.To[to])
		}
		if sum != 100 {
			c.Fail(one.Key("to"), code.BadWeight, fmt.Sprintf("the shares add up to %d", sum), "make them add up to 100")
		}
		if d.From == "" {
			c.Fail(one.Key("from"), code.Missing, "there is no locality to distribute from", `write region/zone/*, or "*"`)
		}
	}
	for i, label := range l.FailoverPriority {
		place := rule.OneOf(label, "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.istio.io/subzone")
		if place && len(l.Failover) > 0 {
			c.Fail(
				here.Of("failoverPriority", i), code.Conflict,
				"failover says where a region fails over to, so "+label+" cannot be a priority", "keep one of the two",
			)
		}
	}
	for i, f := range l.Failover {
		checkFailover(c, here.Of("failover", i), f.From, f.To)
	}
}

// ZoneAware checks that failover is between regions, and that no priority is a label for a region or zone, because these are compared
// anyway.
func ZoneAware(c *rule.Check, at *report.Path, z *networking.ZoneAwareLoadBalancerSetting) {
	if z == nil {
		return
	}
	here := at.Key("zoneAwareLbSetting")
	for i, label := range z.FailoverPriority {
		name, _, _ := strings.Cut(label, "=")
		if rule.OneOf(name, "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.istio.io/subzone") {
			c.Fail(
				here.Of("failoverPriority", i), code.Conflict,
				"regions and zones are always distinguished, "+name+" cannot be a priority", "leave it out",
			)
		}
	}
	for i, f := range z.Failover {
		checkFailover(c, here.Of("failover", i), f.From, f.To)
	}
}

// checkFailover: regions fail over to other regions.
func checkFailover(c *rule.Check, one report.Path, from, to string) {
	if strings.ContainsAny(from+to, "/*") {
		c.Fail(one, code.BadLocality, "failover is from region to region", "write regions, without zones and wildcards")
	}
	if from == to {
		c.Fail(one.Key("to"), code.Conflict, "a region cannot fail over to itself", "")
	}
}

func checkConnectionPool(c *rule.Check, at *report.Path, p *networking.ConnectionPoolSettings) {
	if p == nil {
		return
	}
	if p.Tcp == nil && p.Http == nil {
		c.Fail(*at, code.Missing, "the connection pool sets nothing", "set tcp or http")
	}
	if t := p.Tcp; t != nil {
		here := at.Key("tcp")
		checkNotNegative(c, here.Key("maxConnections"), t.MaxConnections)
		c.Duration(here.Key("connectTimeout"), t.ConnectTimeout, time.Millisecond)
		c.Duration(here.Key("idleTimeout"), t.IdleTimeout, 0) // 0: none (destination_rule.proto, TCPSettings.idle_timeout)
		c.Duration(here.Key("maxConnectionDuration"), t.MaxConnectionDuration, time.Millisecond)
		keep := here.Key("tcpKeepalive")
		c.Duration(keep.Key("time"), t.TcpKeepalive.GetTime(), time.Millisecond)
		c.Duration(keep.Key("interval"), t.TcpKeepalive.GetInterval(), time.Millisecond)
	}
	if h := p.Http; h != nil {
		here := at.Key("http")
		checkNotNegative(c, here.Key("http1MaxPendingRequests"), h.Http1MaxPendingRequests)
		checkNotNegative(c, here.Key("http2MaxRequests"), h.Http2MaxRequests)
		checkNotNegative(c, here.Key("maxRequestsPerConnection"), h.MaxRequestsPerConnection)
		checkNotNegative(c, here.Key("maxRetries"), h.MaxRetries)
		checkNotNegative(c, here.Key("maxConcurrentStreams"), h.MaxConcurrentStreams)
		c.Duration(here.Key("idleTimeout"), h.IdleTimeout, time.Millisecond)
		if k := h.Http2KeepAlive; k != nil {
			keep := here.Key("http2KeepAlive")
			if k.Interval == nil {
				c.Fail(keep.Key("interval"), code.Missing, "it is not said how often a ping is sent", "set interval")
			}
			if k.Timeout == nil {
				c.Fail(keep.Key("timeout"), code.Missing, "it is not said how long an answer may take", "set timeout")
			}
			c.Duration(keep.Key("interval"), k.Interval, time.Millisecond)
			c.Duration(keep.Key("timeout"), k.Timeout, time.Millisecond)
		}
		if h.H2UpgradePolicy == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE && h.UseClientProtocol {
			c.Fail(here.Key("useClientProtocol"), code.Conflict,
				"useClientProtocol and h2UpgradePolicy UPGRADE exclude each other", "keep one of the two")
		}
	}
}

func checkNotNegative(c *rule.Check, at report.Path, n int32) {
	if n < 0 {
		c.Fail(at, code.BadNumber, fmt.Sprintf("%d is negative", n), "write 0 or more")
	}
}

func checkOutlier(c *rule.Check, at *report.Path, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	c.Duration(at.Key("interval"), o.Interval, time.Millisecond)
	c.Duration(at.Key("baseEjectionTime"), o.BaseEjectionTime, time.Millisecond)
	c.Percent(at.Key("maxEjectionPercent"), float64(o.MaxEjectionPercent))
	c.Percent(at.Key("minHealthPercent"), float64(o.MinHealthPercent))
	if o.ConsecutiveLocalOriginFailures.GetValue() > 0 && !o.SplitExternalLocalOriginErrors {
		c.Fail(at.Key("consecutiveLocalOriginFailures"), code.Conflict, "local origin failures are not counted apart",
			"set splitExternalLocalOriginErrors")
	}
}

// ClientTLS checks that the certificates fit the mode.
func ClientTLS(c *rule.Check, at *report.Path, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	if t.InsecureSkipVerify.GetValue() && (t.Mode == networking.ClientTLSSettings_SIMPLE || t.Mode == networking.ClientTLSSettings_MUTUAL) {
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"caCertificates", t.CaCertificates != ""},
			{"credentialName", t.CredentialName != "" && t.Mode == networking.ClientTLSSettings_SIMPLE},
			{"subjectAltNames", len(t.SubjectAltNames) > 0},
		} {
			if f.set {
				c.Fail(at.Key(f.name), code.Conflict, "nothing is verified, by insecureSkipVerify", "keep one of the two")
			}
		}
	}
	files := t.ClientCertificate != "" || t.PrivateKey != "" || t.CaCertificates != ""
	if t.CredentialName != "" && files {
		c.Fail(at.Key("credentialName"), code.Conflict, "credentialName and certificate files exclude each other", "keep one of the two")
		return
	}
	switch t.Mode {
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		if files || t.CredentialName != "" {
			c.Fail(at.Key("mode"), code.Conflict, "ISTIO_MUTUAL uses the mesh's own certificates",
				"leave the certificates out, or write mode MUTUAL")
		}
	case networking.ClientTLSSettings_MUTUAL:
		if t.CredentialName != "" {
			return
		}
		if t.ClientCertificate == "" {
			c.Fail(at.Key("clientCertificate"), code.Missing, "mode MUTUAL needs a client certificate",
				"set clientCertificate or credentialName")
		}
		if t.PrivateKey == "" {
			c.Fail(at.Key("privateKey"), code.Missing, "mode MUTUAL needs a private key", "set privateKey or credentialName")
		}
	case networking.ClientTLSSettings_SIMPLE:
		if t.CredentialName == "" && t.CaCertificates == "" && !t.InsecureSkipVerify.GetValue() && len(t.SubjectAltNames) > 0 {
			c.Warn(at.Key("subjectAltNames"), code.NotVerified,
				"without caCertificates the system's trust store is used to verify the names",
				"set caCertificates to say which authority is meant")
		}
	}
}
