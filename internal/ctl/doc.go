// Package ctl holds the verbs of pilotctl: each reads a debug page of a control plane and shows it as a table, JSON or YAML.
// It knows the pages' types (admin) and how to print; everything else it asks the control plane for.
// Verbs for operators have folders: check finds mistakes before and after an installation, remote writes the Secret that names another
// cluster, tags has the names of revisions, authz the policies of a proxy, logging the levels of logs.
//
// Verbs that do more have folders: stored reads and writes objects in etcd, cluster reaches control planes in a Kubernetes cluster,
// install puts one there (chart fills in what it installs, installing is its command line), kubeinject puts proxies into pods, workload
// writes the folder that a machine needs to join, truth explains objects, requests and turns, planning changes that are not made yet,
// proxyconfig the resources of one proxy and what is behind a workload, injection the webhooks that put proxies into pods, validate
// objects of files by themselves, convert writes objects of Istio's as those of the Gateway API.
// All print with output.
package ctl
