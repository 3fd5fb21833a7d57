"""aws.py ENDPOINT DIR: an object and an identity by boto3, which signs every request; see aws_test.go."""
import hashlib
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint, folder = sys.argv[1:]
config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
options = {"endpoint_url": endpoint, "region_name": "eu-north-1", "config": config}

print("account", boto3.client("sts", **options).get_caller_identity()["Account"])
s3 = boto3.client("s3", **options)
with open(folder + "/up.bin", "rb") as body:
    print("etag", s3.put_object(Bucket="house", Key="rooms/a door (1).bin", Body=body, Metadata={"colour": "green"})["ETag"])
answer = s3.get_object(Bucket="house", Key="rooms/a door (1).bin", ResponseCacheControl="no-cache")
body = answer["Body"].read()
print("object", len(body), hashlib.sha256(body).hexdigest(), answer["Metadata"])
for name in "missing", "broken":
    try:
        s3.get_object(Bucket="house", Key=name)
    except ClientError as refused:
        print(name, refused.response["ResponseMetadata"]["HTTPStatusCode"], refused.response["Error"])
