package settings

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"fairway/internal/envoy/caller"
)

// passVariable names further variables that Envoy gets: a list separated by commas; a star at the end of a name matches any end.
const passVariable = "ENVOY_ENV_PASS"

// passedVariables returns the variables of the agent that Envoy gets: those that the C library, the allocator, TLS and the tracers
// read, the paths of programs, and the workload's identity, for formats of logs. None of them holds a secret: a rule can make Envoy
// send any of its variables anywhere (%ENVIRONMENT(NAME)%).
func passedVariables() []string {
	return []string{
		"PATH",
		"HOME",
		"LANG",
		"LC_ALL",
		"TZ",
		"LD_LIBRARY_PATH",
		"LD_PRELOAD",
		"GLIBC_TUNABLES",
		"TCMALLOC_*",
		"LOCALDOMAIN",
		"RES_OPTIONS",
		"SSL_CERT_FILE",
		"SSL_CERT_DIR",
		"OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_SERVICE_NAME",
		"DD_SERVICE",
		"DD_ENV",
		"DD_VERSION",
		"HOSTNAME",
		"POD_NAME",
		"POD_NAMESPACE",
		"SERVICE_ACCOUNT",
		"INSTANCE_IP",
		"HOST_IP",
	}
}

// variablePattern is a name, or the beginning of names.
var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)

// envoyVariables returns those of vars that Envoy gets, as name=value, in the order of their names.
func envoyVariables(vars map[string]string) ([]string, error) {
	patterns := passedVariables()
	for word := range strings.SplitSeq(vars[passVariable], ",") {
		word = strings.TrimSpace(word)
		if word != "" && !variablePattern.MatchString(word) {
			return nil, Usage("%s: %q is not a name of a variable, nor the beginning of names with a * after it", passVariable, word)
		}
		patterns = append(patterns, word)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		passes := func(pattern string) bool {
			start, open := strings.CutSuffix(pattern, "*")
			return name == pattern || open && strings.HasPrefix(name, start)
		}
		if name != caller.Variable && slices.ContainsFunc(patterns, passes) {
			out = append(out, name+"="+vars[name])
		}
	}
	return out, nil
}

// environment returns all of Envoy's variables: those, the description of its workload for the servers that it calls, and the
// workload's name in spans, unless that is set already.
func (o Options) environment() []string {
	out := append(slices.Clone(o.Environment), caller.Variable+"="+o.Workload().Claim().String())
	const attributes, datadog = "OTEL_RESOURCE_ATTRIBUTES=", "DD_SERVICE="
	said := func(name string) int {
		return slices.IndexFunc(out, func(v string) bool { return strings.HasPrefix(v, name) })
	}
	name := o.Bootstrap.Node.Cluster
	switch i := said(attributes); {
	case i < 0:
		out = append(out, attributes+"service.name="+name)
	case !strings.Contains(","+strings.TrimPrefix(out[i], attributes), ",service.name="):
		out[i] = strings.TrimSuffix(out[i], ",") + ",service.name=" + name
	}
	if said(datadog) < 0 {
		out = append(out, datadog+name)
	}
	return out
}
