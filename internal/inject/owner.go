package inject

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Owner is the workload that a pod belongs to.
type Owner struct{ Kind, Namespace, Name string }

// cronJobs matches the names of Jobs that a CronJob makes.
var cronJobs = regexp.MustCompile(`^(.+)-\d{8,10}$`)

// ownerOf finds the workload of a pod that a controller made: the Deployment of a ReplicaSet, the CronJob of a Job. The names of both begin
// with the workload's name.
func ownerOf(pod *corev1.Pod) Owner {
	out := Owner{"Pod", pod.Namespace, pod.Name}
	for _, o := range pod.OwnerReferences {
		if o.Controller == nil || !*o.Controller {
			continue
		}
		out.Kind, out.Name = o.Kind, o.Name
		hash := pod.Labels["pod-template-hash"]
		if name, cut := strings.CutSuffix(o.Name, "-"+hash); o.Kind == "ReplicaSet" && hash != "" && cut {
			out.Kind, out.Name = "Deployment", name
		}
		if name := cronJobs.FindStringSubmatch(o.Name); o.Kind == "Job" && name != nil {
			out.Kind, out.Name = "CronJob", name[1]
		}
		return out
	}
	if out.Name == "" {
		out.Name = strings.TrimSuffix(pod.GenerateName, "-")
	}
	return out
}
