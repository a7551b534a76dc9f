package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// Command is `pilotctl workload`.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "workload", Aliases: []string{"w"}, Short: "Prepare machines without an orchestrator"}
	c.AddCommand(configCommand())
	return c
}

func configCommand() *cobra.Command {
	o := Options{}
	c := &cobra.Command{
		Use:          "config",
		Aliases:      []string{"configure"},
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Short:        "Write the files that a machine needs to join the mesh",
		Long: "Writes a folder for a machine: cluster.env, mesh.yaml, root-cert.pem, istio-token, hosts, " +
			"pilot-agent.service and, with --address and without --autoregister, workload-entry.yaml.\n\n" +
			"The machine's identity comes from a WorkloadGroup (-f), from flags, or from both: flags have precedence. The root and the " +
			"token come from the control plane's own folder\n" +
			"(--caStateDir), so run this where that is: the token is a new one-time join token. Elsewhere name them: " +
			"--root and --tokenFile.",
		RunE: func(c *cobra.Command, _ []string) error {
			written, err := Write(o, time.Now)
			if err != nil {
				return err
			}
			fmt.Fprint(c.OutOrStdout(), written)
			return nil
		},
	}
	state := "./var/lib/fairway/ca"
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		state = filepath.Join(dir, "ca")
	}
	s := c.Flags()
	s.StringVarP(&o.File, "file", "f", "", "file with the WorkloadGroup")
	s.StringVar(&o.Name, "name", "", "name of the WorkloadGroup: which one of the file, or what the workload is called")
	s.StringVarP(&o.Namespace, "namespace", "n", "", "namespace of the workload")
	s.StringVarP(&o.Account, "serviceAccount", "s", "", "service account of the workload (default the group's, else default)")
	s.StringToStringVarP(&o.Labels, "labels", "l", nil, "labels of the workload beside the group's: app=shop,version=v1")
	s.StringVar(&o.Address, "address", "",
		"address of the machine: peers reach it there; also writes its WorkloadEntry, to be given to the control plane")
	s.BoolVar(&o.AutoRegister, "autoregister", false,
		"the machine registers with the group when its agent connects: no WorkloadEntry is written")
	s.StringVarP(&o.Output, "output", "o", "",
		"folder to write; it must not exist, or hold nothing but what an earlier call wrote (--overwrite)")
	s.BoolVar(&o.Overwrite, "overwrite", false, "replace a folder that an earlier call wrote, as a whole")
	s.StringVar(&o.Directory, "directory", "/var/lib/fairway/agent", "where the folder will lie on the machine")
	s.StringVar(&o.ClusterID, "clusterID", "Kubernetes", "cluster of the mesh that the machine counts for")
	s.StringVar(&o.TrustDomain, "trustDomain", "cluster.local", "trust domain of the mesh")
	s.StringVar(&o.Discovery, "discoveryAddress", "",
		"host:port of the control plane's secure address; several with commas between (default "+defaultDiscovery+" with --ingressIP)")
	s.StringVar(&o.IngressIP, "ingressIP", "",
		"address of the control plane for the machine; the file hosts maps the discovery address's name to it")
	s.StringVar(&o.Root, "root", "", "file with the root that the control plane is known by (default root-cert.pem of --caStateDir)")
	s.StringVar(&o.TokenFile, "tokenFile", "", "file with a token for the machine (default a new join token)")
	s.DurationVar(&o.TokenDuration, "tokenDuration", time.Hour, "how long a new join token waits for the machine")
	s.StringVar(&o.StateDir, "caStateDir", state, "folder that keeps the control plane's root and join tokens")
	s.StringVar(&o.Interception, "interception", "REDIRECT", "REDIRECT, TPROXY, or NONE: nothing is intercepted")
	s.BoolVar(&o.CaptureDNS, "captureDNS", true, "the agent answers DNS queries for the mesh's names")
	s.StringVar(&o.User, "user", "istio-proxy", "user that runs the agent on the machine")
	s.StringVar(&o.Agent, "agent", "/usr/local/bin/pilot-agent", "the agent on the machine")
	s.StringVar(&o.Envoy, "envoy", "/usr/local/bin/envoy", "Envoy on the machine")
	return c
}
