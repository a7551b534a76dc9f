// Command kube is etcd, the Kubernetes API server, its controller manager and kubectl in one program, for the tests: kube NAME ARGS...
// A link to it with the name kubectl behaves as kubectl: kubectl ARGS...
// The command is a module of its own, so that the control plane's module never names its dependencies.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	if name := filepath.Base(os.Args[0]); name == "kubectl" {
		os.Args[0] = name
	} else if os.Args = os.Args[1:]; len(os.Args) == 0 {
		refuse("")
	}
	switch name := os.Args[0]; name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			cmdutil.CheckErr(err) // prints it, and ends the program
		}
	default:
		refuse(name)
	}
}

func refuse(name string) {
	fmt.Fprintf(os.Stderr, "kube: no program %q: say etcd, kube-apiserver, kube-controller-manager or kubectl\n", name)
	os.Exit(2)
}
