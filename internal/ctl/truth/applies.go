package truth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/ctl/output"
)

// applies shows how many connected proxies each object affects.
func applies(s Session) *cobra.Command {
	var none bool
	cmd := &cobra.Command{
		Use: "applies [KIND [[NAMESPACE/]NAME]]", Args: cobra.MaximumNArgs(2),
		Short: "For how many connected proxies each object makes a difference, and why for none",
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.Close()
			query := url.Values{}
			if len(args) > 0 {
				query.Set("kind", args[0])
			}
			if len(args) > 1 {
				ns, name, has := strings.Cut(args[1], "/")
				if !has {
					ns, name = "", args[1]
				}
				query.Set("namespace", ns)
				query.Set("name", name)
			}
			objects, missing := reaches(cmd.Context(), s, query)
			if missing != nil && len(objects) == 0 {
				return output.Fail(missing)
			}
			if none {
				objects = slices.DeleteFunc(objects, func(o page.ObjectReach) bool { return o.Proxies > 0 })
			}
			sh := output.Sheet{
				Header: []string{"KIND", "OBJECT", "PROXIES", "WHICH, OR WHY NONE"},
				Value:  objects, Empty: "no such object", Wide: true,
			}
			for _, o := range objects {
				sh.Rows = append(sh.Rows, []string{
					o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), fmt.Sprint(o.Proxies), whichOrWhy(o),
				})
			}
			if err := errors.Join(sh.Write(cmd.OutOrStdout(), s.Format()), missing); err != nil {
				return output.Fail(err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&none, "none", false, "only objects that make no difference for any connected proxy")
	return cmd
}

// reaches asks every control plane for all of its pages, and adds up the answers for each object: each control plane knows its own proxies.
func reaches(ctx context.Context, s Session, query url.Values) ([]page.ObjectReach, error) {
	all := map[config.Key]page.ObjectReach{}
	planes, err := s.Planes(ctx)
	errs := []error{err}
	for _, c := range planes {
		for query.Del("after"); ; {
			var some page.Reaches
			if err := c.Fetch(ctx, "/debug/appliesz", query, &some); err != nil {
				errs = append(errs, err)
				break
			}
			for _, o := range some.Objects {
				k := config.Key{Kind: config.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
				known := all[k]
				o.Proxies += known.Proxies
				o.Some = append(known.Some, o.Some...)
				o.Why = slices.Compact(append(known.Why, o.Why...))
				all[k] = o
			}
			if some.Next == "" || some.Next == query.Get("after") {
				break
			}
			query.Set("after", some.Next)
		}
	}
	out := make([]page.ObjectReach, 0, len(all))
	for _, k := range slices.SortedFunc(maps.Keys(all), config.CompareKey) {
		o := all[k]
		if o.Proxies > 0 {
			o.Why = nil // of a control plane that has none of these proxies
		}
		out = append(out, o)
	}
	return out, errors.Join(errs...)
}

func whichOrWhy(o page.ObjectReach) string {
	if o.Proxies == 0 {
		return output.OrDash(strings.Join(o.Why, "; "))
	}
	names := make([]string, len(o.Some))
	for i, id := range o.Some {
		names[i] = page.ShortName(id)
	}
	if o.Proxies > len(names) {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
