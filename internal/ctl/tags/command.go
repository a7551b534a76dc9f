package tags

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/kubeclient"
)

// Session has the format of the output.
type Session interface{ Format() string }

// verb is what the verbs share.
type verb struct {
	s        Session
	at       *cluster.Flags
	revision string
	over     bool // an existing tag may be moved, and one that is in use removed
	timeout  time.Duration
}

// Command returns the verb with those below it.
func Command(s Session, at *cluster.Flags) *cobra.Command {
	v := &verb{s: s, at: at}
	root := &cobra.Command{
		Use: "tag", Short: "Names of revisions: namespaces keep their label istio.io/rev while the name moves to the next revision",
		Long: "A tag is one more name of a revision, with webhooks of its own. Namespaces with the label istio.io/rev=TAG are injected " +
			"by the revision that the tag names.\n\n" +
			"  pilotctl tag set prod --revision v1-0\n" +
			"  pilotctl tag set prod --revision v1-1 --overwrite    # and restart the workloads\n\n" +
			"revisionTags of the chart's values make tags that belong to the installation; these are changed there.",
	}
	set := &cobra.Command{
		Use: "set TAG --revision REVISION", Args: cobra.ExactArgs(1), Short: "Make a tag, or move it to another revision",
		RunE: v.naming(v.set),
	}
	set.Flags().BoolVar(&v.over, "overwrite", false, "move a tag that names another revision")
	generate := &cobra.Command{
		Use: "generate TAG --revision REVISION", Args: cobra.ExactArgs(1), Short: "Print the objects of a tag, without asking a cluster",
		RunE: v.naming(v.generate),
	}
	for _, c := range []*cobra.Command{set, generate} {
		c.Flags().StringVar(&v.revision, "revision", "", "revision that the tag names (required)")
	}
	remove := &cobra.Command{
		Use: "remove TAG", Aliases: []string{"delete"}, Args: cobra.ExactArgs(1), Short: "Remove a tag that no namespace uses",
		RunE: v.run(v.remove),
	}
	remove.Flags().BoolVarP(&v.over, "skip-confirmation", "y", false, "also if namespaces use it: their new pods get no proxy then")
	list := &cobra.Command{
		Use: "list", Aliases: []string{"show"}, Args: cobra.NoArgs, Short: "The tags, their revisions, and the namespaces that use them",
		RunE: v.run(v.list),
	}
	root.PersistentFlags().DurationVar(&v.timeout, "timeout", 30*time.Second, "how long the cluster may take")
	root.AddCommand(set, generate, remove, list)
	return root
}

// naming checks --revision, which the verbs above these have for another purpose, and calls run.
func (v *verb) naming(do func(context.Context, *cobra.Command, string) error) func(*cobra.Command, []string) error {
	next := v.run(do)
	return func(cmd *cobra.Command, args []string) error {
		if bad := validation.IsDNS1035Label(v.revision); len(bad) > 0 {
			return errors.New("--revision: name the revision that the tag is for; pilotctl tag list and pilotctl version show them")
		}
		if v.revision == args[0] {
			return fmt.Errorf("--revision %s: a tag needs a name that is not its revision's", v.revision)
		}
		return next(cmd, args)
	}
}

// run checks the command line, and marks the errors of what follows.
func (v *verb) run(do func(context.Context, *cobra.Command, string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
			if bad := validation.IsDNS1035Label(name); len(bad) > 0 {
				return fmt.Errorf("tag %q: want a name of at most 63 small letters, digits and -, that begins with a letter", name)
			}
		}
		if v.timeout <= 0 {
			return errors.New("--timeout: want a positive duration as 30s")
		}
		ctx, stop := context.WithTimeout(cmd.Context(), v.timeout)
		defer stop()
		if err := do(ctx, cmd, name); err != nil {
			return output.Fail(err)
		}
		return nil
	}
}

// Tag is a line of tag list.
type Tag struct {
	Tag        string   `json:"tag"`
	Revision   string   `json:"revision"`
	Owner      string   `json:"owner,omitempty"` // the installation that it belongs to; empty: none
	Namespaces []string `json:"namespaces"`
}

func (v *verb) open() (*kubeclient.Clients, error) {
	config, err := v.at.Config()
	if err != nil {
		return nil, err
	}
	return kubeclient.Open(config)
}

func (v *verb) list(ctx context.Context, cmd *cobra.Command, _ string) error {
	c, err := v.open()
	if err != nil {
		return err
	}
	all, err := c.MutatingWebhooks().List(ctx, metav1.ListOptions{LabelSelector: tagLabel})
	if err != nil {
		return fmt.Errorf("list webhooks: %w", err)
	}
	out := []Tag{}
	for i := range all.Items {
		h := &all.Items[i]
		t := Tag{Tag: h.Labels[tagLabel], Revision: h.Labels[revisionLabel], Owner: ownerOf(h)}
		if t.Namespaces, err = users(ctx, c, t.Tag); err != nil {
			return err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Tag) int { return strings.Compare(a.Tag, b.Tag) })
	sh := output.Sheet{Header: []string{"TAG", "REVISION", "OWNER", "NAMESPACES"}, Value: out, Empty: "there is no tag"}
	for _, t := range out {
		sh.Rows = append(sh.Rows, []string{
			t.Tag, output.OrDash(t.Revision), output.OrDash(t.Owner), output.OrDash(strings.Join(t.Namespaces, ",")),
		})
	}
	return sh.Write(cmd.OutOrStdout(), v.s.Format())
}

// users returns the namespaces with the label of a tag.
func users(ctx context.Context, c *kubeclient.Clients, tag string) ([]string, error) {
	out := []string{}
	selectors := []string{revisionLabel + "=" + tag}
	if tag == defaultTag {
		selectors = append(selectors, "istio-injection=enabled")
	}
	for _, of := range selectors {
		all, err := c.Namespaces().List(ctx, metav1.ListOptions{LabelSelector: of})
		if err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for _, n := range all.Items {
			if !slices.Contains(out, n.Name) {
				out = append(out, n.Name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}
