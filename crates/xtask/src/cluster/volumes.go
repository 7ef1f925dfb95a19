// A provisioner of volumes that belong to a node, for the local cluster only.
//
// All nodes share the machine's file system, so a volume is a directory below <root>/<node>, made here, at once.
// local-path-provisioner does the same with a pod per volume, which cost 3 s a claim and 10 s for ten at once.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	core "k8s.io/client-go/listers/core/v1"
	storage "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

const provisioner = "etcd-operator.local/directory"

type controller struct {
	client  kubernetes.Interface
	claims  core.PersistentVolumeClaimLister
	volumes core.PersistentVolumeLister
	classes storage.StorageClassLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	root    string
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster")
	root := flag.String("root", "", "where the volumes lie")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, time.Minute)
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](100*time.Millisecond, 5*time.Second)
	c := &controller{
		client: client, claims: claims.Lister(), volumes: volumes.Lister(), classes: factory.Storage().V1().StorageClasses().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(limiter), root: *root,
	}
	enqueue := func(object any) {
		if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
			c.queue.Add(name)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), volumes.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			log.Fatal(err)
		}
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	for range 3 {
		go c.work()
	}
	c.work()
}

func (c *controller) work() {
	for {
		name, stop := c.queue.Get()
		if stop {
			return
		}
		// Volumes have no namespace, claims always have one.
		look := c.reclaim
		if name.Namespace != "" {
			look = c.provision
		}
		if err := look(name); err != nil {
			log.Printf("%s: %v", name, err)
			c.queue.AddRateLimited(name)
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(name)
	}
}

// provision makes the volume of a claim whose pod has been given a node.
func (c *controller) provision(name cache.ObjectName) error {
	claim, err := c.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if errors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	node := claim.Annotations["volume.kubernetes.io/selected-node"]
	ours := claim.Annotations["volume.kubernetes.io/storage-provisioner"] == provisioner
	if !ours || node == "" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return nil
	}
	class, err := c.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err
	}
	volume := "pvc-" + string(claim.UID)
	path := filepath.Join(c.root, node, volume)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	// The umask does not count: any user in the pod may write.
	if err := os.Chmod(path, 0o777); err != nil {
		return err
	}
	_, err = c.client.CoreV1().PersistentVolumes().Create(context.TODO(), &v1.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: volume, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			ClaimRef: &v1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// reclaim deletes a volume whose claim is gone, as the class says.
func (c *controller) reclaim(name cache.ObjectName) error {
	volume, err := c.volumes.Get(name.Name)
	if errors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	ours := volume.Annotations["pv.kubernetes.io/provisioned-by"] == provisioner && volume.Spec.Local != nil
	released := volume.Status.Phase == v1.VolumeReleased && volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete
	if !ours || !released {
		return nil
	}
	path := volume.Spec.Local.Path
	if filepath.Base(path) != volume.Name || filepath.Dir(filepath.Dir(path)) != filepath.Clean(c.root) {
		return fmt.Errorf("%s is not a directory of ours", path)
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	err = c.client.CoreV1().PersistentVolumes().Delete(context.TODO(), volume.Name, meta.DeleteOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}
