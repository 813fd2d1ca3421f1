// Command kubernetes is the upstream Kubernetes components and etcd in one binary.
//
// The test harness (tests/support/cluster) builds it once and starts it in
// several roles: the component is the first argument, or the name of the file
// it is run as. One binary, because the components share nearly all of their
// code: seven separate links would take seven times the disk and the time.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	etcd "go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The kubelet installs the signal handler itself, and a second one panics:
// hence the background context.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

// pickRole returns the component's name and the argument list that it should see.
func pickRole(args []string) (string, []string) {
	name := filepath.Base(args[0])
	if _, known := components[name]; known || name == "etcd" {
		return name, args
	}
	if len(args) < 2 {
		return "", args
	}
	return args[1], args[1:]
}

func main() {
	role, args := pickRole(os.Args)
	os.Args = args
	if role == "etcd" {
		etcd.Main(args)
		return
	}
	newCommand, known := components[role]
	if !known {
		fmt.Fprintf(os.Stderr, "kubernetes: unknown component %q\n", role)
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}
