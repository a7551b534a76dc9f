// Package authz has pilotctl's verb authz: the AuthorizationPolicies that a proxy carries out, in order of evaluation, with
// their rules. It finds them in the proxy's own configuration. It must not know how policies become filters.
package authz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/truth"
)

// order is that of the actions: CUSTOM and DENY are asked before ALLOW.
var order = []string{"CUSTOM", "DENY", "ALLOW", "AUDIT"}

// ruleName matches the name of a rule in a proxy's configuration.
var ruleName = regexp.MustCompile(`^ns\[([^\]]+)\]-policy\[([^\]]+)\]-rule\[(\d+)\]$`)

// Rule is one rule of a policy that applies.
type Rule struct {
	Action    string `json:"action"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rule      string `json:"rule"` // its number
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	When      string `json:"when,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
}

// Found is what applies to a proxy.
type Found struct {
	Proxy string `json:"proxy"`
	Rules []Rule `json:"rules"`
	// Restricted is set if an ALLOW policy applies: a request that none of them allows is denied.
	Restricted bool `json:"restricted"`
}

// Command returns the verb.
func Command(s truth.Session) *cobra.Command {
	root := &cobra.Command{Use: "authz", Short: "The AuthorizationPolicies of a proxy"}
	root.AddCommand(&cobra.Command{
		Use: "check PROXY", Args: cobra.ExactArgs(1),
		Short: "The AuthorizationPolicies that a proxy carries out, in order of evaluation, and what each rule is about",
		Long: "Reads the configuration that the proxy has. pilotctl explain says which rule decides about one request:\n\n" +
			"  pilotctl authz check reviews-1.shop\n" +
			"  pilotctl explain reviews-1.shop GET reviews:9080/ --from web-1.shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.Close()
			found, err := check(cmd.Context(), s, args[0])
			if err == nil {
				err = found.sheet().Write(cmd.OutOrStdout(), s.Format())
			}
			if err != nil {
				return output.Fail(err)
			}
			return nil
		},
	})
	return root
}

// check asks the control plane that the proxy is connected to.
func check(ctx context.Context, s truth.Session, proxy string) (*Found, error) {
	planes, missing := s.Planes(ctx)
	errs := []error{missing}
	for _, p := range planes {
		var dump any
		if err := p.Fetch(ctx, "/debug/config_dump", url.Values{"proxyID": {proxy}}, &dump); err != nil {
			errs = append(errs, err)
			continue
		}
		out := &Found{Proxy: proxy, Rules: []Rule{}}
		seen := map[Rule]bool{}
		walk(dump, func(named []string, restricts bool) {
			out.Restricted = out.Restricted || restricts
			for _, name := range named {
				m := ruleName.FindStringSubmatch(name)
				if r := (Rule{Namespace: m[1], Name: m[2], Rule: m[3]}); !seen[r] {
					seen[r] = true
					out.Rules = append(out.Rules, r)
				}
			}
		})
		if err := out.describe(ctx, p); err != nil {
			return nil, err
		}
		return out, nil
	}
	return nil, errors.Join(errs...)
}

// walk calls found for each authorization filter in a dump, with the names of its rules. restricts is true if the filter denies requests
// that match no rule.
func walk(v any, found func(named []string, restricts bool)) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			walk(one, found)
		}
	case map[string]any:
		if typ, _ := v["@type"].(string); strings.HasSuffix(typ, ".rbac.v3.RBAC") {
			for _, key := range []string{"rules", "shadowRules", "shadow_rules"} {
				rules, has := v[key].(map[string]any)
				if !has {
					continue
				}
				policies, _ := rules["policies"].(map[string]any)
				named := slices.DeleteFunc(slices.Sorted(maps.Keys(policies)),
					func(name string) bool { return !ruleName.MatchString(name) })
				action, _ := rules["action"].(string)
				allows := key == "rules" && (action == "" || action == "ALLOW")
				found(named, allows && len(named) == len(policies))
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walk(v[key], found)
		}
	}
}

// policy is the part of an AuthorizationPolicy that is shown.
type policy struct {
	Action string `json:"action"`
	Rules  []struct {
		From []map[string]map[string][]string `json:"from"`
		To   []map[string]map[string][]string `json:"to"`
		When []struct {
			Key       string   `json:"key"`
			Values    []string `json:"values"`
			NotValues []string `json:"notValues"`
		} `json:"when"`
	} `json:"rules"`
}

// describe reads the policies, and puts the rules in order. A caller that may not see a policy sees its name.
func (f *Found) describe(ctx context.Context, p truth.Plane) error {
	for i := range f.Rules {
		r := &f.Rules[i]
		var objects []page.ObjectInfo
		query := url.Values{"kind": {"AuthorizationPolicy"}, "namespace": {r.Namespace}, "name": {r.Name}}
		if err := p.Fetch(ctx, "/debug/configz", query, &objects); err != nil {
			return err
		}
		if len(objects) == 0 {
			continue
		}
		var of policy
		text, err := json.Marshal(objects[0].Spec)
		if err == nil {
			err = json.Unmarshal(text, &of)
		}
		if err != nil {
			return fmt.Errorf("AuthorizationPolicy %s/%s: %w", r.Namespace, r.Name, err)
		}
		if r.Action = of.Action; r.Action == "" {
			r.Action = "ALLOW"
		}
		r.File, r.Line = objects[0].File, objects[0].Line
		var n int
		if _, err := fmt.Sscan(r.Rule, &n); err != nil || n >= len(of.Rules) {
			continue
		}
		rule := of.Rules[n]
		r.From, r.To = fields(rule.From), fields(rule.To)
		var when []string
		for _, w := range rule.When {
			when = append(when, strings.TrimSpace(w.Key+" "+values("", w.Values)+" "+values("not ", w.NotValues)))
		}
		r.When = strings.Join(when, "; ")
	}
	slices.SortStableFunc(f.Rules, func(a, b Rule) int {
		if by := slices.Index(order, a.Action) - slices.Index(order, b.Action); by != 0 {
			return by
		}
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+a.Rule, b.Namespace+"/"+b.Name+"/"+b.Rule)
	})
	return nil
}

func values(before string, of []string) string {
	if len(of) == 0 {
		return ""
	}
	return before + strings.Join(of, ",")
}

// fields writes sources or operations: their fields in order of their names, alternatives apart.
func fields(all []map[string]map[string][]string) string {
	var out []string
	for _, one := range all {
		for _, of := range one { // source or operation, the only key
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(of)) {
				parts = append(parts, name+"="+strings.Join(of[name], ","))
			}
			out = append(out, strings.Join(parts, " "))
		}
	}
	return strings.Join(out, " or ")
}

func (f *Found) sheet() output.Sheet {
	sh := output.Sheet{
		Header: []string{"ACTION", "POLICY", "RULE", "FROM", "TO", "WHEN", "PLACE"}, Value: f, Wide: true,
		Empty: "no rule of an AuthorizationPolicy applies to " + f.Proxy,
	}
	for _, r := range f.Rules {
		place := r.File
		if r.Line > 0 {
			place = fmt.Sprintf("%s:%d", r.File, r.Line)
		}
		sh.Rows = append(sh.Rows, []string{output.OrDash(r.Action), r.Namespace + "/" + r.Name, r.Rule,
			output.OrDash(r.From), output.OrDash(r.To), output.OrDash(r.When), output.OrDash(place)})
	}
	switch {
	case f.Restricted && len(f.Rules) == 0:
		sh.Empty = "an ALLOW policy without rules applies to " + f.Proxy + ": every request is denied"
	case f.Restricted:
		sh.Notes = append(sh.Notes, "an ALLOW policy applies: requests that no rule of action ALLOW matches are denied")
	default:
		sh.Notes = append(sh.Notes, "no ALLOW policy applies: requests that no other rule denies are allowed")
	}
	return sh
}
