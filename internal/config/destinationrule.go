package config

import (
	"fmt"
	"math/big"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// checkDestinationRule holds the rules of https://istio.io/latest/docs/reference/config/networking/destination-rule/
// that the schema cannot say.
func checkDestinationRule(c *check, dr *networking.DestinationRule) {
	at := c.spec()
	if !isIP(dr.Host) {
		c.host(at.key("host"), dr.Host)
	}
	export := at.key("exportTo")
	c.exportTo(&export, dr.ExportTo)
	policy := at.key("trafficPolicy")
	checkTrafficPolicy(c, &policy, dr.TrafficPolicy)
	seen := map[string]int{}
	for i, s := range dr.Subsets {
		here := at.of("subsets", i)
		checkSubset(c, &here, s)
		if first, twice := seen[s.Name]; twice {
			c.warn(
				here.key("name"),
				"Duplicate",
				fmt.Sprintf("subset %s is written twice; subsets[%d] counts", quote(s.Name), first),
				"give it another name",
			)
			continue
		}
		seen[s.Name] = i
	}
	selector := at.key("workloadSelector")
	c.selector(&selector, dr.WorkloadSelector.GetMatchLabels())
}

func checkSubset(c *check, at *path, s *networking.Subset) {
	if !isSubsetName(s.Name) {
		c.fail(at.key("name"), "BadName", quote(s.Name)+" is not a subset's name", "write letters, digits, '-', '_' and '.'")
	}
	labels := at.key("labels")
	c.labels(&labels, s.Labels)
	policy := at.key("trafficPolicy")
	checkTrafficPolicy(c, &policy, s.TrafficPolicy)
}

func checkTrafficPolicy(c *check, at *path, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	checkPolicyParts(c, at, p.LoadBalancer, p.ConnectionPool, p.OutlierDetection, p.Tls)
	seen := map[uint32]bool{}
	for i, s := range p.PortLevelSettings {
		here := at.of("portLevelSettings", i)
		port := here.key("port")
		switch n := s.Port.GetNumber(); {
		case s.Port == nil:
			c.fail(here, "Missing", "the settings name no port", "set port.number")
		case seen[n]:
			c.warn(port.key("number"), "Duplicate", fmt.Sprintf("port %d has settings already; the first count", n), "merge the two")
		default:
			c.port(port.key("number"), n)
			seen[n] = true
		}
		checkPolicyParts(c, &here, s.LoadBalancer, s.ConnectionPool, s.OutlierDetection, s.Tls)
	}
	if t := p.Tunnel; t != nil {
		here := at.key("tunnel")
		if !oneOf(t.Protocol, "", "CONNECT", "POST") {
			c.fail(here.key("protocol"), "UnknownValue", quote(t.Protocol)+" is not a way to tunnel", "write CONNECT or POST")
		}
		c.port(here.key("targetPort"), t.TargetPort)
		if !isIP(t.TargetHost) {
			c.host(here.key("targetHost"), t.TargetHost)
		}
	}
	if b := p.RetryBudget; b != nil && b.Percent != nil {
		here := at.key("retryBudget")
		c.percent(here.key("percent"), b.Percent.Value)
	}
}

func checkPolicyParts(c *check, at *path, lb *networking.LoadBalancerSettings, pool *networking.ConnectionPoolSettings,
	outlier *networking.OutlierDetection, tls *networking.ClientTLSSettings) {
	here := at.key("loadBalancer")
	checkLoadBalancer(c, &here, lb)
	here = at.key("connectionPool")
	checkConnectionPool(c, &here, pool)
	here = at.key("outlierDetection")
	checkOutlier(c, &here, outlier)
	here = at.key("tls")
	checkClientTLS(c, &here, tls)
}

func checkLoadBalancer(c *check, at *path, lb *networking.LoadBalancerSettings) {
	if lb == nil {
		return
	}
	if h := lb.GetConsistentHash(); h != nil {
		here := at.key("consistentHash")
		if h.HashKey == nil {
			c.fail(here, "Missing", "there is nothing to hash", "set httpHeaderName, httpCookie, useSourceIp or httpQueryParameterName")
		}
		if ck := h.GetHttpCookie(); ck != nil && ck.Name == "" {
			cookie := here.key("httpCookie")
			c.fail(cookie.key("name"), "Missing", "the cookie has no name", "")
		}
		maglev := here.key("maglev")
		c.tableSize(maglev.key("tableSize"), h.GetMaglev().GetTableSize())
	}
	checkLocality(c, at, lb.LocalityLbSetting)
	c.duration(
		at.key("warmupDurationSecs"),
		lb.WarmupDurationSecs,
		time.Millisecond,
	) //nolint:staticcheck // deprecated by Istio, still taken
}

// tableSize checks the size of a maglev table (envoy.config.cluster.v3.Cluster.MaglevLbConfig.table_size); 0 leaves it to Envoy.
func (c *check) tableSize(at path, size uint64) {
	const most = 5000011
	switch {
	case size == 0:
	case size > most:
		c.fail(
			at,
			"BadNumber",
			fmt.Sprintf("a table of %d is larger than Envoy takes", size),
			fmt.Sprintf("write a prime number of at most %d; the default is 65537", most),
		)
	case !big.NewInt(int64(size)).ProbablyPrime(0):
		c.fail(
			at,
			"BadNumber",
			fmt.Sprintf("%d is not a prime number, which the size of a maglev table must be", size),
			fmt.Sprintf("write %d; the default is 65537", nextPrime(int64(size))),
		)
	}
}

// nextPrime is the smallest prime number above n.
func nextPrime(n int64) int64 {
	for n++; !big.NewInt(n).ProbablyPrime(0); n++ { // exact below 2^64
	}
	return n
}

// checkLocality: a traffic distribution is either by shares or by order of failing over.
func checkLocality(c *check, at *path, l *networking.LocalityLoadBalancerSetting) {
	if l == nil {
		return
	}
	here := at.key("localityLbSetting")
	if len(l.Distribute) > 0 && (len(l.Failover) > 0 || len(l.FailoverPriority) > 0) {
		c.fail(here.key("distribute"), "Conflict", "distribute and failover exclude each other", "keep one of the two")
	}
	for i, d := range l.Distribute {
		one := here.of("distribute", i)
		var sum uint64
		for _, to := range sortedKeys(d.To) {
			sum += uint64(d.To[to])
		}
		if sum != 100 {
			c.fail(one.key("to"), "BadWeight", fmt.Sprintf("the shares add up to %d", sum), "make them add up to 100")
		}
		if d.From == "" {
			c.fail(one.key("from"), "Missing", "there is no locality to distribute from", `write region/zone/*, or "*"`)
		}
	}
	for i, f := range l.Failover {
		one := here.of("failover", i)
		if f.From == f.To {
			c.fail(one.key("to"), "Conflict", "a region cannot fail over to itself", "")
		}
	}
}

func checkConnectionPool(c *check, at *path, p *networking.ConnectionPoolSettings) {
	if p == nil {
		return
	}
	if p.Tcp == nil && p.Http == nil {
		c.fail(*at, "Missing", "the connection pool sets nothing", "set tcp or http")
	}
	if t := p.Tcp; t != nil {
		here := at.key("tcp")
		c.notNegative(here.key("maxConnections"), t.MaxConnections)
		c.duration(here.key("connectTimeout"), t.ConnectTimeout, time.Millisecond)
	}
	if h := p.Http; h != nil {
		here := at.key("http")
		c.notNegative(here.key("http1MaxPendingRequests"), h.Http1MaxPendingRequests)
		c.notNegative(here.key("http2MaxRequests"), h.Http2MaxRequests)
		c.notNegative(here.key("maxRequestsPerConnection"), h.MaxRequestsPerConnection)
		c.notNegative(here.key("maxRetries"), h.MaxRetries)
		c.notNegative(here.key("maxConcurrentStreams"), h.MaxConcurrentStreams)
		if h.H2UpgradePolicy == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE && h.UseClientProtocol {
			c.fail(
				here.key("useClientProtocol"),
				"Conflict",
				"useClientProtocol and h2UpgradePolicy UPGRADE exclude each other",
				"keep one of the two",
			)
		}
	}
}

func (c *check) notNegative(at path, n int32) {
	if n < 0 {
		c.fail(at, "BadNumber", fmt.Sprintf("%d is negative", n), "write 0 or more")
	}
}

func checkOutlier(c *check, at *path, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	c.duration(at.key("interval"), o.Interval, time.Millisecond)
	c.duration(at.key("baseEjectionTime"), o.BaseEjectionTime, time.Millisecond)
	c.percent(at.key("maxEjectionPercent"), float64(o.MaxEjectionPercent))
	c.percent(at.key("minHealthPercent"), float64(o.MinHealthPercent))
	if o.ConsecutiveLocalOriginFailures.GetValue() > 0 && !o.SplitExternalLocalOriginErrors {
		c.fail(
			at.key("consecutiveLocalOriginFailures"),
			"Conflict",
			"local origin failures are not counted apart",
			"set splitExternalLocalOriginErrors",
		)
	}
}

// checkClientTLS: which certificates a mode takes.
func checkClientTLS(c *check, at *path, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	files := t.ClientCertificate != "" || t.PrivateKey != "" || t.CaCertificates != ""
	if t.CredentialName != "" && files {
		c.fail(at.key("credentialName"), "Conflict", "credentialName and certificate files exclude each other", "keep one of the two")
		return
	}
	switch t.Mode {
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		if files || t.CredentialName != "" {
			c.fail(
				at.key("mode"),
				"Conflict",
				"ISTIO_MUTUAL uses the mesh's own certificates",
				"leave the certificates out, or write mode MUTUAL",
			)
		}
	case networking.ClientTLSSettings_MUTUAL:
		if t.CredentialName != "" {
			return
		}
		if t.ClientCertificate == "" {
			c.fail(
				at.key("clientCertificate"),
				"Missing",
				"mode MUTUAL needs a client certificate",
				"set clientCertificate or credentialName",
			)
		}
		if t.PrivateKey == "" {
			c.fail(at.key("privateKey"), "Missing", "mode MUTUAL needs a private key", "set privateKey or credentialName")
		}
	case networking.ClientTLSSettings_SIMPLE:
		if t.CredentialName == "" && t.CaCertificates == "" && !t.InsecureSkipVerify.GetValue() && len(t.SubjectAltNames) > 0 {
			c.warn(
				at.key("subjectAltNames"),
				"NotVerified",
				"without caCertificates the system's trust store is used to verify the names",
				"set caCertificates to say which authority is meant",
			)
		}
	}
}
