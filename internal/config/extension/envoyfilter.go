package extension

import (
	"regexp"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// EnvoyFilter checks the rules of https://istio.io/latest/docs/reference/config/networking/envoy-filter/ that do not need Envoy's messages.
func EnvoyFilter(c *rule.Check, ef *networking.EnvoyFilter) {
	at := report.Spec()
	selector := at.Key("workloadSelector")
	c.Selector(&selector, "labels", ef.WorkloadSelector.GetLabels())
	c.Targets(at, nil, ef.TargetRefs)
	for i, p := range ef.ConfigPatches {
		here := at.Of("configPatches", i)
		switch {
		case p.Patch == nil:
			c.Fail(here.Key("patch"), code.Missing, "there is no patch", "")
		case p.Patch.Operation == networking.EnvoyFilter_Patch_INVALID:
			patch := here.Key("patch")
			c.Fail(patch.Key("operation"), code.Missing, "the patch has no operation", "write MERGE, ADD, REMOVE or another")
		case p.Patch.Operation != networking.EnvoyFilter_Patch_REMOVE && p.Patch.Value == nil:
			patch := here.Key("patch")
			c.Fail(patch.Key("value"), code.Missing, "operation "+p.Patch.Operation.String()+" needs a value", "")
		}
		if p.ApplyTo == networking.EnvoyFilter_INVALID {
			c.Fail(here.Key("applyTo"), code.Missing, "the patch applies to nothing", "write CLUSTER, HTTP_FILTER or another")
		}
		if p.Match != nil {
			match := here.Key("match")
			checkPatchMatch(c, &match, p.ApplyTo, p.Match)
		}
	}
}

// checkPatchMatch: a match is of the kind of object that is patched (envoy_filter.proto, EnvoyConfigObjectMatch).
func checkPatchMatch(
	c *rule.Check, at *report.Path, to networking.EnvoyFilter_ApplyTo, m *networking.EnvoyFilter_EnvoyConfigObjectMatch,
) {
	if _, err := regexp.Compile(m.GetProxy().GetProxyVersion()); err != nil {
		proxy := at.Key("proxy")
		c.Fail(proxy.Key("proxyVersion"), code.BadRegex, "the regular expression does not compile: "+err.Error(), "write it in RE2 syntax")
	}
	want := ""
	switch to {
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_LISTENER_FILTER:
		want = "listener"
	case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE:
		want = "routeConfiguration"
	case networking.EnvoyFilter_CLUSTER:
		want = "cluster"
	}
	for _, has := range []struct {
		name string
		set  bool
	}{
		{"listener", m.GetListener() != nil},
		{"routeConfiguration", m.GetRouteConfiguration() != nil},
		{"cluster", m.GetCluster() != nil},
	} {
		if has.set && want != "" && has.name != want {
			c.Fail(at.Key(has.name), code.Conflict, to.String()+" is not matched by "+has.name, "match by "+want)
		}
	}
	if f := m.GetListener().GetFilterChain().GetFilter(); f != nil {
		listener := at.Key("listener")
		chain := listener.Key("filterChain")
		here := chain.Key("filter")
		checkFilterMatch(c, &here, to, f)
	}
}

// httpManager is the network filter that has HTTP filters.
const httpManager = "envoy.filters.network.http_connection_manager"

func checkFilterMatch(
	c *rule.Check, at *report.Path, to networking.EnvoyFilter_ApplyTo, f *networking.EnvoyFilter_ListenerMatch_FilterMatch,
) {
	if f.Name == "" {
		c.Fail(at.Key("name"), code.Missing, "the match names no filter", "write "+httpManager+" or another")
		return
	}
	if to == networking.EnvoyFilter_LISTENER || to == networking.EnvoyFilter_FILTER_CHAIN {
		c.Warn(*at, code.Unused, to.String()+" is not chosen by a filter: the match does nothing", "leave it out")
	}
	if f.SubFilter == nil {
		return
	}
	sub := at.Key("subFilter")
	switch {
	case to != networking.EnvoyFilter_HTTP_FILTER:
		c.Fail(sub, code.Conflict, "a subFilter goes with applyTo HTTP_FILTER, not "+to.String(), "leave it out")
	case f.Name != httpManager && f.Name != "envoy.http_connection_manager":
		c.Fail(at.Key("name"), code.Conflict, strconv.Quote(f.Name)+" has no HTTP filters", "write "+httpManager)
	case f.SubFilter.Name == "":
		c.Fail(sub.Key("name"), code.Missing, "the match names no filter", "write envoy.filters.http.router or another")
	}
}
