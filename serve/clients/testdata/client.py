"""Reads, writes and watches config maps, and prints what it sees. Arguments: a kubeconfig and a namespace."""

import sys

from kubernetes import client, config, watch

config.load_kube_config(sys.argv[1])
namespace = sys.argv[2]
api = client.CoreV1Api()

for item in api.list_namespaced_config_map(namespace, resource_version="0").items:
    print("cached", item.metadata.name, item.data)

token = None
while True:
    page = api.list_namespaced_config_map(namespace, limit=7, _continue=token)
    print("page", [item.metadata.name for item in page.items], page.metadata.remaining_item_count)
    token = page.metadata._continue
    if not token:
        break

print("one", api.read_namespaced_config_map("map-03", namespace).data)
print("selected", len(api.list_config_map_for_all_namespaces(field_selector="metadata.name=map-04").items))
try:
    api.read_namespaced_config_map("none", namespace)
except client.ApiException as e:
    print("error", e.status, e.reason)

version = api.list_namespaced_config_map(namespace).metadata.resource_version
name = "from-python"
api.create_namespaced_config_map(namespace, {"metadata": {"name": name}, "data": {"i": "x"}})
api.patch_namespaced_config_map(name, namespace, {"data": {"i": "y"}})
api.delete_namespaced_config_map(name, namespace)
events = watch.Watch()
for event in events.stream(
    api.list_namespaced_config_map,
    namespace,
    resource_version=version,
    field_selector="metadata.name=" + name,
    timeout_seconds=120,
):
    print("event", event["type"], event["object"].data)
    if event["type"] == "DELETED":
        events.stop()
