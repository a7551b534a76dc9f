package traffic

import (
	"strconv"
	"strings"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// claimPrefix is the prefix of header names in a match that mean claims of the token that authenticated the request
// (https://istio.io/latest/docs/tasks/security/authentication/jwt-route/).
const claimPrefix = "@request.auth.claims"

// ClaimPath reads the name of a claim among the headers of an HTTPMatchRequest: "@request.auth.claims.a.b", or "@request.auth.claims[a][b]"
// if a claim's own name has dots. path is the names from the outside in. is says that the name can only mean a claim; path is nil then if
// it names none.
func ClaimPath(header string) (path []string, is bool) {
	if len(header) < len(claimPrefix) || !strings.EqualFold(header[:len(claimPrefix)], claimPrefix) {
		return nil, false
	}
	rest := header[len(claimPrefix):]
	if names, ok := strings.CutPrefix(rest, "."); ok {
		return claimNames(strings.Split(names, ".")), true
	}
	names, opened := strings.CutPrefix(rest, "[")
	names, closed := strings.CutSuffix(names, "]")
	if !opened || !closed {
		return nil, true
	}
	return claimNames(strings.Split(names, "][")), true
}

// claimNames returns nil if one of the names is invalid.
func claimNames(names []string) []string {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "[]") {
			return nil
		}
	}
	return names
}

// checkMatchedName checks the name in a match: a header, or a claim if the rule is for gateways.
func checkMatchedName(c *rule.Check, at report.Path, name string, claims bool) {
	names, isClaim := ClaimPath(name)
	switch {
	case !isClaim:
		c.HeaderName(at, name)
	case names == nil:
		c.Fail(
			at,
			code.BadClaim,
			strconv.Quote(name)+" names no claim",
			"write "+claimPrefix+".<name>, or "+claimPrefix+"[<name>] where the name has dots; nested ones "+
				".<name>.<name> or [<name>][<name>]",
		)
	case !claims:
		c.Fail(at, code.BadClaim, "claims are matched at gateways alone, and the rule is for none",
			"bind the rule to a gateway, or leave the condition out")
	}
}
