package injection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
)

// injection is one webhook configuration that puts proxies into pods.
type injection struct {
	Namespace string `json:"namespace"` // of the control plane that it asks
	Revision  string `json:"revision"`
	Webhook   string `json:"webhook"`
	Target    string `json:"target"`
	// Namespaces are those of the pods that it injects, unless a pod says otherwise.
	Namespaces []string `json:"namespaces"`
}

// Injector returns istioctl's verbs about injection.
func Injector(s Session, flags *cluster.Flags) *cobra.Command {
	c := &cobra.Command{Use: "injector", Short: "The webhooks that put proxies into pods"}
	c.AddCommand(&cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short: "List the webhooks that put proxies into pods, and the namespaces that each is for",
		RunE: s.Run(func(cmd *cobra.Command, _ []string) error {
			r, err := cluster.Open(*flags)
			if err != nil {
				return err
			}
			hooks, err := r.Client().MutatingWebhooks().List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list webhooks: %w", err)
			}
			namespaces, err := r.Client().Namespaces().List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list namespaces: %w", err)
			}
			found := []injection{}
			for i := range hooks.Items {
				one := injectionOf(&hooks.Items[i])
				if one == nil {
					continue
				}
				for j := range namespaces.Items {
					ns := &namespaces.Items[j]
					is, err := injectsAll(&hooks.Items[i], ns.Labels)
					if err != nil {
						return err
					}
					if is {
						one.Namespaces = append(one.Namespaces, ns.Name)
					}
				}
				slices.Sort(one.Namespaces)
				found = append(found, *one)
			}
			return injectionSheet(found).Write(cmd.OutOrStdout(), s.Format())
		}),
	})
	return c
}

func injectionSheet(found []injection) output.Sheet {
	slices.SortFunc(found, func(a, b injection) int { return cmp.Compare(a.Webhook, b.Webhook) })
	sh := output.Sheet{
		Header: []string{"NAMESPACE", "ISTIO-REVISION", "INJECTOR-HOOK", "TARGET", "INJECTED NAMESPACES"}, Value: found, Wide: true,
		Empty: "no webhook of this cluster injects proxies",
	}
	for _, i := range found {
		sh.Rows = append(sh.Rows, []string{
			output.OrDash(i.Namespace), output.OrDash(i.Revision), i.Webhook, i.Target, output.OrDash(strings.Join(i.Namespaces, ", ")),
		})
	}
	return sh
}

// injectionOf reads a webhook configuration; nil: it injects no proxies.
func injectionOf(config *admission.MutatingWebhookConfiguration) *injection {
	for _, w := range config.Webhooks {
		if !Injects(w) {
			continue
		}
		out := &injection{Revision: config.Labels["istio.io/rev"], Webhook: config.Name, Namespaces: []string{}}
		switch to := w.ClientConfig; {
		case to.Service != nil:
			out.Namespace, out.Target = to.Service.Namespace, to.Service.Name+"."+to.Service.Namespace
		case to.URL != nil:
			out.Target = *to.URL
		}
		return out
	}
	return nil
}

// injectsAll reports whether a configuration injects the pods of a namespace that say nothing of it.
func injectsAll(config *admission.MutatingWebhookConfiguration, namespace map[string]string) (bool, error) {
	for _, w := range config.Webhooks {
		if !Injects(w) {
			continue
		}
		inNamespace, err := picks(w.NamespaceSelector, namespace)
		if err != nil {
			return false, fmt.Errorf("%s: %w", w.Name, err)
		}
		silent, err := picks(w.ObjectSelector, nil)
		if err != nil {
			return false, fmt.Errorf("%s: %w", w.Name, err)
		}
		if inNamespace && silent {
			return true, nil
		}
	}
	return false, nil
}
