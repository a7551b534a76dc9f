package mesh

import (
	"fmt"
	"regexp"
)

// RuleName names a rule of an AuthorizationPolicy in proxies' filters and access logs.
func RuleName(namespace, policy string, rule int) string {
	return fmt.Sprintf("ns[%s]-policy[%s]-rule[%d]", namespace, policy, rule)
}

var ruleName = regexp.MustCompile(`^ns\[([^\]]*)\]-policy\[([^\]]*)\]-rule\[([0-9]+)\]$`)

// ParseRuleName takes apart a name that RuleName made; false: it is another name.
func ParseRuleName(name string) (namespace, policy, rule string, ok bool) {
	m := ruleName.FindStringSubmatch(name)
	if m == nil {
		return "", "", "", false
	}
	return m[1], m[2], m[3], true
}
