package ctl

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/cluster"
)

// dashboard opens pages of proxies and control planes on this machine.
func (s *session) dashboard() *cobra.Command {
	browser := false
	c := &cobra.Command{
		Use: "dashboard", Aliases: []string{"dash", "d"},
		Short: "Open the pages of a proxy or a control plane on this machine, until Ctrl-C",
	}
	c.PersistentFlags().BoolVar(&browser, "browser", false, "open the address in a browser (xdg-open)")
	namespace := ""
	proxy := &cobra.Command{
		Use: "proxy PROXY", Aliases: []string{"envoy"}, Args: cobra.ExactArgs(1), ValidArgsFunction: s.Names,
		Short: "The administration of a proxy's Envoy: pages that change nothing",
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			name, err := s.Proxy(cmd.Context(), args[0], namespace)
			if err != nil {
				return err
			}
			at, err := s.forwardTo(cmd.Context(), name, adminPort)
			if err != nil {
				return err
			}
			return s.keepOpen(cmd, "http://"+at, browser)
		}),
	}
	proxy.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the proxy")
	c.AddCommand(proxy, &cobra.Command{
		Use: "controlz", Aliases: []string{"istiod", "istiod-debug"}, Args: cobra.NoArgs,
		Short: "The pages of a control plane",
		RunE: s.run(func(cmd *cobra.Command, _ []string) error {
			at, err := s.pages(cmd.Context())
			if err != nil {
				return err
			}
			return s.keepOpen(cmd, at+"/debug", browser)
		}),
	})
	return c
}

// pages returns the address of the first control plane's pages that this machine reaches.
func (s *session) pages(ctx context.Context) (string, error) {
	inside, err := s.inCluster(ctx)
	if err != nil {
		return "", err
	}
	if !inside {
		for c, err := range s.planes(ctx) {
			if err != nil {
				return "", err
			}
			return c.scheme + "://" + c.address, nil
		}
	}
	r, err := cluster.Open(s.cluster)
	if err != nil {
		return "", err
	}
	planes, err := r.Planes(ctx)
	var errs []error
	for _, p := range planes {
		f, err := r.Forward(ctx, p, pagesPort)
		if err == nil {
			s.opened = append(s.opened, f)
			return "http://" + f.Address, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(append(errs, err)...)
}

// keepOpen prints an address. If the address is a forwarded port, it keeps that open until the context ends.
func (s *session) keepOpen(cmd *cobra.Command, address string, browser bool) error {
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), address); err != nil {
		return err
	}
	if browser {
		if err := exec.CommandContext(cmd.Context(), "xdg-open", address).Run(); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "no browser was opened (%v): open the address above\n", err)
		}
	}
	if len(s.opened) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "Ctrl-C ends it")
		<-cmd.Context().Done()
	}
	return nil
}
