// Package validate has pilotctl's verb validate: it reads objects of files, each by itself, as a control plane of this version does. What
// objects say about others is for analyze. It must not know control planes.
package validate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Options are of the global flags.
type Options struct {
	Format  func() string // of the output
	Version string        // of this program
}

// Command returns the verb.
func Command(o Options) *cobra.Command {
	var files []string
	var namespace string
	var recursive, referential bool
	cmd := &cobra.Command{
		Use: "validate -f FILE|FOLDER|-...", Aliases: []string{"v"},
		Short: "Find errors in the objects of files, each by itself",
		Long: "Reads objects of files, each by itself, and prints a line for each problem. Objects of other programs count as valid. " +
			"pilotctl analyze also finds errors between objects, as a host that no file has.\n\n" +
			"  pilotctl validate -f rules/ -R\n" +
			"  kustomize build | pilotctl validate -f -\n\n" +
			"It ends with 0 if no object has an error, with 1 if one has, and with 2 if it could not read all files.",
		Args: cobra.MaximumNArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return errors.New("say with -f which files or folders hold the objects; -: the standard input")
			}
			docs, unread := analyze.Documents(files, recursive, cmd.InOrStdin())
			problems, err := judge(docs, namespace)
			if err != nil {
				return err
			}
			if err := show(cmd, o, problems, len(docs), unread == nil); err != nil {
				return output.Fail(err)
			}
			if unread != nil {
				return unread
			}
			return verdict(problems)
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&files, "filename", "f", nil, "files or folders of objects; -: standard input")
	f.BoolVarP(&recursive, "recursive", "R", false, "read folders in folders too")
	f.StringVarP(&namespace, "namespace", "n", "default", "namespace of objects that name none")
	f.BoolVarP(&referential, "referential", "x", true, "istioctl's; it changes nothing: pilotctl analyze looks at references")
	return cmd
}

// judge returns the problems of the documents.
func judge(docs []config.Document, namespace string) ([]page.ProblemInfo, error) {
	decoder, err := config.NewDecoder(config.Options{DefaultNamespace: namespace})
	if err != nil {
		return nil, err
	}
	out := []page.ProblemInfo{}
	for _, doc := range docs {
		_, problems := decoder.Decode(doc)
		slices.SortFunc(problems, mesh.CompareProblem)
		for _, p := range problems {
			if p.Code != code.ForeignKind {
				out = append(out, page.ProblemOf(p))
			}
		}
	}
	return out, nil
}

func show(cmd *cobra.Command, o Options, problems []page.ProblemInfo, docs int, whole bool) error {
	format := o.Format()
	if format != "table" {
		return output.WriteProblems(cmd.OutOrStdout(), format, o.Version, problems)
	}
	if err := output.WriteProblems(cmd.OutOrStdout(), "oneline", o.Version, problems); err != nil || len(problems) > 0 || !whole {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", output.Plural(docs, "object"))
	return err
}

// verdict returns an error if a problem is one.
func verdict(problems []page.ProblemInfo) error {
	n := 0
	for _, p := range problems {
		if p.Severity == mesh.Error.String() {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return output.Fail(errors.New(output.Plural(n, "error")))
}
