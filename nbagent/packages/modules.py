"""Import name → distribution: what to install when a module is missing.

The name after `import` is not always the name on the index: `cv2` comes from `opencv-python-headless`, and programs
that guess install whatever somebody registered as `cv2`. So names that differ are in a table, written by hand. A name
that isn't in it stands for itself, and policy (minimum age, allow, deny) decides.

Where several distributions provide a module, the table names the one that works in a sandbox: no display, no compiler,
no system library. Keys are the longest dotted prefix that decides. A namespace package (`google`, `azure`) has a key
for each known part; other parts are refused, since anybody may have registered the bare name.
"""

from __future__ import annotations

import keyword
import sys

from packaging.utils import canonicalize_name

from nbagent.errors import InstallRefused

MAX_MODULE = 100
"""Characters of the longest module name."""

DISTRIBUTIONS: dict[str, str] = {
    "_argon2_cffi_bindings": "argon2-cffi-bindings",
    "_cffi_backend": "cffi",
    "_distutils_hack": "setuptools",
    "_plotly_utils": "plotly",
    "_pytest": "pytest",
    "_yaml": "PyYAML",
    "absl": "absl-py",
    "acoustid": "pyacoustid",
    "ahocorasick": "pyahocorasick",
    "airflow": "apache-airflow",
    "airtable": "airtable-python-wrapper",
    "allauth": "django-allauth",
    "alpaca": "alpaca-py",
    "alphalens": "alphalens-reloaded",
    "antlr4": "antlr4-python3-runtime",
    "apiclient": "google-api-python-client",
    "arango": "python-arango",
    "argon2": "argon2-cffi",
    "atlassian": "atlassian-python-api",
    "attr": "attrs",
    "autosklearn": "auto-sklearn",
    "ax": "ax-platform",
    "azure.ai.inference": "azure-ai-inference",
    "azure.ai.ml": "azure-ai-ml",
    "azure.common": "azure-common",
    "azure.core": "azure-core",
    "azure.cosmos": "azure-cosmos",
    "azure.data.tables": "azure-data-tables",
    "azure.eventhub": "azure-eventhub",
    "azure.identity": "azure-identity",
    "azure.keyvault.keys": "azure-keyvault-keys",
    "azure.keyvault.secrets": "azure-keyvault-secrets",
    "azure.mgmt.compute": "azure-mgmt-compute",
    "azure.mgmt.core": "azure-mgmt-core",
    "azure.mgmt.network": "azure-mgmt-network",
    "azure.mgmt.resource": "azure-mgmt-resource",
    "azure.mgmt.storage": "azure-mgmt-storage",
    "azure.servicebus": "azure-servicebus",
    "azure.storage.blob": "azure-storage-blob",
    "azure.storage.filedatalake": "azure-storage-file-datalake",
    "azure.storage.fileshare": "azure-storage-file-share",
    "azure.storage.queue": "azure-storage-queue",
    "backports.tarfile": "backports.tarfile",
    "backports.zoneinfo": "backports.zoneinfo",
    "barcode": "python-barcode",
    "bayes_opt": "bayesian-optimization",
    "benedict": "python-benedict",
    "bidi": "python-bidi",
    "binance": "python-binance",
    "Bio": "biopython",
    "bioformats": "python-bioformats",
    "bluetooth": "PyBluez",
    "box": "python-box",
    "bs4": "beautifulsoup4",
    "bson": "pymongo",
    "cairo": "pycairo",
    "camelot": "camelot-py",
    "can": "python-can",
    "cassandra": "cassandra-driver",
    "cms": "django-cms",
    "community": "python-louvain",
    "constraint": "python-constraint",
    "consul": "python-consul",
    "corsheaders": "django-cors-headers",
    "cpuinfo": "py-cpuinfo",
    "crispy_forms": "django-crispy-forms",
    "crontab": "python-crontab",
    "Crypto": "pycryptodome",
    "Cryptodome": "pycryptodomex",
    "cups": "pycups",
    "cupy": "cupy-cuda12x",
    "cv2": "opencv-python-headless",
    "daemon": "python-daemon",
    "databricks.sdk": "databricks-sdk",
    "databricks.sql": "databricks-sql-connector",
    "dateutil": "python-dateutil",
    "dbt": "dbt-core",
    "dbus": "dbus-python",
    "debian": "python-debian",
    "debug_toolbar": "django-debug-toolbar",
    "decouple": "python-decouple",
    "deepgram": "deepgram-sdk",
    "delta": "delta-spark",
    "discord": "discord.py",
    "django_filters": "django-filter",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "edgar": "edgartools",
    "editor": "python-editor",
    "ee": "earthengine-api",
    "elftools": "pyelftools",
    "empyrical": "empyrical-reloaded",
    "enchant": "pyenchant",
    "engineio": "python-engineio",
    "environ": "django-environ",
    "etcd": "python-etcd",
    "facebook": "facebook-sdk",
    "factory": "factory-boy",
    "faiss": "faiss-cpu",
    "ffmpeg": "ffmpeg-python",
    "finnhub": "finnhub-python",
    "firebird": "firebird-driver",
    "firecrawl": "firecrawl-py",
    "fitz": "pymupdf",
    "flint": "python-flint",
    "fpdf": "fpdf2",
    "frontmatter": "python-frontmatter",
    "git": "GitPython",
    "github": "PyGithub",
    "gitlab": "python-gitlab",
    "gnupg": "python-gnupg",
    "google.ai.generativelanguage": "google-ai-generativelanguage",
    "google.analytics.admin": "google-analytics-admin",
    "google.analytics.data": "google-analytics-data",
    "google.api": "googleapis-common-protos",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.aiplatform": "google-cloud-aiplatform",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.bigquery_storage": "google-cloud-bigquery-storage",
    "google.cloud.bigtable": "google-cloud-bigtable",
    "google.cloud.compute_v1": "google-cloud-compute",
    "google.cloud.datastore": "google-cloud-datastore",
    "google.cloud.documentai": "google-cloud-documentai",
    "google.cloud.exceptions": "google-cloud-core",
    "google.cloud.firestore": "google-cloud-firestore",
    "google.cloud.language": "google-cloud-language",
    "google.cloud.language_v1": "google-cloud-language",
    "google.cloud.logging": "google-cloud-logging",
    "google.cloud.monitoring_v3": "google-cloud-monitoring",
    "google.cloud.ndb": "google-cloud-ndb",
    "google.cloud.pubsub": "google-cloud-pubsub",
    "google.cloud.pubsub_v1": "google-cloud-pubsub",
    "google.cloud.secretmanager": "google-cloud-secret-manager",
    "google.cloud.spanner": "google-cloud-spanner",
    "google.cloud.speech": "google-cloud-speech",
    "google.cloud.storage": "google-cloud-storage",
    "google.cloud.tasks_v2": "google-cloud-tasks",
    "google.cloud.texttospeech": "google-cloud-texttospeech",
    "google.cloud.translate": "google-cloud-translate",
    "google.cloud.translate_v2": "google-cloud-translate",
    "google.cloud.videointelligence": "google-cloud-videointelligence",
    "google.cloud.vision": "google-cloud-vision",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.longrunning": "googleapis-common-protos",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "google.resumable_media": "google-resumable-media",
    "google.rpc": "googleapis-common-protos",
    "google.type": "googleapis-common-protos",
    "googleapiclient": "google-api-python-client",
    "googlesearch": "googlesearch-python",
    "graphql": "graphql-core",
    "gremlin_python": "gremlinpython",
    "gridfs": "pymongo",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "grpc_status": "grpcio-status",
    "grpc_tools": "grpcio-tools",
    "guardian": "django-guardian",
    "guardrails": "guardrails-ai",
    "guppy": "guppy3",
    "haiku": "dm-haiku",
    "haystack": "haystack-ai",
    "hubspot": "hubspot-api-client",
    "hydra": "hydra-core",
    "imagej": "pyimagej",
    "imblearn": "imbalanced-learn",
    "imdb": "cinemagoer",
    "impala": "impyla",
    "import_export": "django-import-export",
    "ipykernel_launcher": "ipykernel",
    "jaraco.classes": "jaraco.classes",
    "jaraco.collections": "jaraco.collections",
    "jaraco.context": "jaraco.context",
    "jaraco.functools": "jaraco.functools",
    "jaraco.text": "jaraco.text",
    "javabridge": "python-javabridge",
    "jenkins": "python-jenkins",
    "jks": "pyjks",
    "jnius": "pyjnius",
    "jnpr": "junos-eznc",
    "jose": "python-jose",
    "jpype": "JPype1",
    "jwt": "PyJWT",
    "kafka": "kafka-python",
    "keystone": "keystone-engine",
    "keystoneclient": "python-keystoneclient",
    "ldap": "python-ldap",
    "libarchive": "libarchive-c",
    "libfuturize": "future",
    "llama_cpp": "llama-cpp-python",
    "llama_index.core": "llama-index-core",
    "llama_index.embeddings.huggingface": "llama-index-embeddings-huggingface",
    "llama_index.embeddings.openai": "llama-index-embeddings-openai",
    "llama_index.llms.ollama": "llama-index-llms-ollama",
    "llama_index.llms.openai": "llama-index-llms-openai",
    "lux": "lux-api",
    "magic": "python-magic",
    "markdown_it": "markdown-it-py",
    "MeCab": "mecab-python3",
    "memcache": "python-memcached",
    "model_utils": "django-model-utils",
    "mpl_toolkits": "matplotlib",
    "mpl_toolkits.basemap": "basemap",
    "mptt": "django-mptt",
    "multipart": "python-multipart",
    "mysql": "mysql-connector-python",
    "MySQLdb": "mysqlclient",
    "nacl": "PyNaCl",
    "nasdaqdatalink": "Nasdaq-Data-Link",
    "nats": "nats-py",
    "newsapi": "newsapi-python",
    "newspaper": "newspaper3k",
    "ninja": "django-ninja",
    "nmap": "python-nmap",
    "novaclient": "python-novaclient",
    "odf": "odfpy",
    "office365": "Office365-REST-Python-Client",
    "open_clip": "open-clip-torch",
    "OpenGL": "PyOpenGL",
    "opensearchpy": "opensearch-py",
    "OpenSSL": "pyOpenSSL",
    "openstack": "openstacksdk",
    "opentelemetry": "opentelemetry-api",
    "opentelemetry.exporter.otlp": "opentelemetry-exporter-otlp",
    "opentelemetry.instrumentation": "opentelemetry-instrumentation",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "orbit": "orbit-ml",
    "osgeo": "GDAL",
    "ot": "POT",
    "paddle": "paddlepaddle",
    "paho": "paho-mqtt",
    "parselmouth": "praat-parselmouth",
    "past": "future",
    "patoolib": "patool",
    "pcapng": "python-pcapng",
    "pdfminer": "pdfminer.six",
    "phonenumber_field": "django-phonenumber-field",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "playhouse": "peewee",
    "polygon": "polygon-api-client",
    "polymorphic": "django-polymorphic",
    "ppadb": "pure-python-adb",
    "pptx": "python-pptx",
    "prestodb": "presto-python-client",
    "progressbar": "progressbar2",
    "psycopg2": "psycopg2-binary",
    "pulsar": "pulsar-client",
    "pwiz": "peewee",
    "pwn": "pwntools",
    "pyfolio": "pyfolio-reloaded",
    "pylab": "matplotlib",
    "pylsp": "python-lsp-server",
    "pynvml": "nvidia-ml-py",
    "pypfopt": "pyportfolioopt",
    "pysat": "python-sat",
    "pythonjsonlogger": "python-json-logger",
    "pyVim": "pyvmomi",
    "pywt": "PyWavelets",
    "pyximport": "Cython",
    "quaternion": "numpy-quaternion",
    "rapidjson": "python-rapidjson",
    "readability": "readability-lxml",
    "rediscluster": "redis-py-cluster",
    "Registry": "python-registry",
    "rest_framework": "djangorestframework",
    "rest_framework_simplejwt": "djangorestframework-simplejwt",
    "riskfolio": "Riskfolio-Lib",
    "rpds": "rpds-py",
    "RPi": "RPi.GPIO",
    "ruamel": "ruamel.yaml",
    "scikitplot": "scikit-plot",
    "serial": "pyserial",
    "serpapi": "google-search-results",
    "shapefile": "pyshp",
    "shopify": "ShopifyAPI",
    "simple_history": "django-simple-history",
    "skbio": "scikit-bio",
    "skbuild": "scikit-build",
    "skfuzzy": "scikit-fuzzy",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "sklearn_extra": "scikit-learn-extra",
    "skmisc": "scikit-misc",
    "skmultilearn": "scikit-multilearn",
    "skopt": "scikit-optimize",
    "skrf": "scikit-rf",
    "sksurv": "scikit-survival",
    "skvideo": "scikit-video",
    "slugify": "python-slugify",
    "smb": "pysmb",
    "smbclient": "smbprotocol",
    "snap7": "python-snap7",
    "snappy": "python-snappy",
    "snowflake": "snowflake-connector-python",
    "snowflake.snowpark": "snowflake-snowpark-python",
    "snowflake.sqlalchemy": "snowflake-sqlalchemy",
    "socketio": "python-socketio",
    "socks": "PySocks",
    "sockshandler": "PySocks",
    "speech_recognition": "SpeechRecognition",
    "stan": "pystan",
    "stdnum": "python-stdnum",
    "Stemmer": "PyStemmer",
    "stl": "numpy-stl",
    "stomp": "stomp.py",
    "storages": "django-storages",
    "surprise": "scikit-surprise",
    "swiftclient": "python-swiftclient",
    "tabula": "tabula-py",
    "taggit": "django-taggit",
    "talib": "TA-Lib",
    "tavily": "tavily-python",
    "telebot": "pyTelegramBotAPI",
    "telegram": "python-telegram-bot",
    "tlz": "toolz",
    "tortoise": "tortoise-orm",
    "tree": "dm-tree",
    "trello": "py-trello",
    "ubjson": "py-ubjson",
    "umap": "umap-learn",
    "usb": "pyusb",
    "usb1": "libusb1",
    "vcr": "vcrpy",
    "vertexai": "google-cloud-aiplatform",
    "vlc": "python-vlc",
    "vtkmodules": "vtk",
    "weaviate": "weaviate-client",
    "websocket": "websocket-client",
    "whisper": "openai-whisper",
    "whois": "python-whois",
    "widget_tweaks": "django-widget-tweaks",
    "wikipediaapi": "Wikipedia-API",
    "wx": "wxPython",
    "xdg": "pyxdg",
    "Xlib": "python-xlib",
    "yaml": "PyYAML",
    "yara": "yara-python",
    "z3": "z3-solver",
    "zipline": "zipline-reloaded",
    "zmq": "pyzmq",
    "zope.component": "zope.component",
    "zope.event": "zope.event",
    "zope.interface": "zope.interface",
    "zope.schema": "zope.schema",
}
"""Import name → distribution on the index, alphabetical; only names that differ, and parts of namespaces."""

NAMESPACES = frozenset({"azure", "backports", "databricks", "google", "google.cloud", "jaraco", "zope"})
"""Namespace packages, which many distributions share, so that the bare name chooses none."""

REMOVED = frozenset({
    "asynchat", "asyncore", "binhex", "cgi", "cgitb", "chunk", "crypt", "distutils", "formatter", "imghdr", "imp",
    "macpath", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "parser", "pipes", "sndhdr", "smtpd", "spwd",
    "sunau", "symbol", "telnetlib", "uu", "xdrlib",
})  # fmt: skip
"""Modules that left the standard library between Python 3.8 and 3.13."""

PYTHON_2 = frozenset({
    "BaseHTTPServer", "ConfigParser", "Cookie", "HTMLParser", "Queue", "SimpleHTTPServer", "SocketServer",
    "StringIO", "Tkinter", "__builtin__", "cPickle", "cStringIO", "commands", "cookielib", "dummy_thread",
    "htmlentitydefs", "httplib", "md5", "sets", "sha", "thread", "tkFileDialog", "tkMessageBox", "urllib2",
    "urlparse", "xmlrpclib",
})  # fmt: skip
"""The standard library of Python 2, which generated code still imports."""

WINDOWS = frozenset({
    "pythoncom", "pywin", "pywintypes", "servicemanager", "win32", "win32api", "win32clipboard", "win32com",
    "win32con", "win32event", "win32file", "win32gui", "win32pipe", "win32print", "win32process", "win32security",
    "win32service", "win32ui", "wmi",
})  # fmt: skip
"""pywin32 and its kin."""

MACOS = frozenset({"AppKit", "Cocoa", "CoreFoundation", "Foundation", "PyObjCTools", "Quartz", "objc"})
"""PyObjC."""

OWN_FILES = frozenset({
    "app", "common", "config", "constants", "data", "helper", "helpers", "lib", "local_settings", "main", "models",
    "module", "my_module", "mymodule", "script", "scripts", "settings", "setup", "src", "test", "tests", "util",
    "utils",
})  # fmt: skip
"""Names that people give to files beside their script; on the index they belong to strangers."""

ELSEWHERE: dict[str, str] = {
    "FreeCAD": "comes with the FreeCAD application",
    "apt": "comes with Debian's own Python",
    "arcpy": "comes with ArcGIS",
    "bpy": "comes with Blender",
    "clip": "is published only in its repository; open_clip is on the index",
    "dbutils": "exists only in Databricks notebooks",
    "detectron2": "is published only in its repository",
    "en_core_web_lg": "is a spaCy model, which the index doesn't carry",
    "en_core_web_md": "is a spaCy model, which the index doesn't carry",
    "en_core_web_sm": "is a spaCy model, which the index doesn't carry",
    "gi": "needs GTK's system libraries",
    "google.colab": "exists only in Colab",
    "graph_tool": "is not published on the index",
    "hou": "comes with Houdini",
    "kaggle_secrets": "exists only in Kaggle notebooks",
    "mssparkutils": "exists only in Azure notebooks",
    "nuke": "comes with Nuke",
    "qgis": "comes with QGIS",
    "rpm": "comes with the system's own Python",
    "sage": "comes with SageMath",
    "unreal": "comes with Unreal Engine",
}
"""Modules that no wheel on the index provides, and why."""

POPULAR = frozenset(
    (
        "absl-py accelerate adjusttext aiobotocore aiofiles aiohttp aiosignal aiosqlite akshare albumentations "
        "alembic altair anndata annotated-types ansible anthropic antlr4-python3-runtime anyio apache-beam "
        "apscheduler arch argcomplete arrow arviz asgiref astropy astroquery asttokens async-timeout asyncpg attrs "
        "autogluon autograd automat av awkward babel backoff backtrader bambi bandit bcrypt beartype beautifulsoup4 "
        "biopython bitarray black blake3 bleach blinker blis blosc bokeh boltons boto3 botocore bottle bottleneck "
        "branca brotli build cachetools cartopy catalogue catboost category-encoders causalml celery celluloid "
        "certifi cffi cfgrib cftime chainer chardet charset-normalizer cirq click cloudpickle cmdstanpy cmocean "
        "colorama colorcet colorlog colorlover comm confection contextily contourpy convertdate coverage cramjam "
        "croniter cryptography cssselect cvxopt cvxpy cycler cymem cython dacite dask dask-ml dataclasses-json "
        "datasets datashader datasketch dateparser deap debugpy decorator deepdiff defusedxml delta-spark deltalake "
        "dill diskcache distlib distributed django docker docopt docutils docxtpl dowhy duckdb econml ecos "
        "editdistance einops elasticsearch email-validator emcee emoji et-xmlfile evaluate exceptiongroup executing "
        "fabric faker fastapi fastavro fastjsonschema fastparquet fasttext feather-format feature-engine featuretools "
        "filelock filterpy fiona flake8 flask flatbuffers flax fonttools formulaic fpdf frozenlist fsspec fuzzywuzzy "
        "gast gcsfs gdown gensim geoalchemy2 geocoder geodatasets geographiclib geojson geopandas geoplot geopy "
        "gevent gluonts gmpy2 google-auth google-cloud-bigquery google-cloud-storage great-expectations great-tables "
        "greenlet grpcio gspread gunicorn gymnasium h11 h2o h3 h5netcdf h5py hdbscan hdf5plugin healpy hmmlearn "
        "holidays holoviews html5lib httpcore httplib2 httptools httpx huggingface-hub humanfriendly humanize hvplot "
        "hyperopt hypothesis ibis-framework idna igraph imagehash imageio imagesize imbalanced-learn implicit "
        "importlib-metadata importlib-resources inflect inflection iniconfig intake interpret ipykernel ipympl "
        "ipython ipywidgets isodate isort itables itsdangerous jax jaxlib jedi jieba jinja2 jiter jmespath joblib "
        "joypy json5 jsonlines jsonpath-ng jsonpickle jsonschema jupyter jupyter-client jupyter-core jupyterlab "
        "jupytext kaleido keras keras-tuner kiwisolver kmodes kneed kubernetes langchain langchain-core langdetect "
        "langgraph lark leidenalg levenshtein libpysal librosa lifelines lifetimes lightfm lightgbm lightning lime "
        "linearmodels litellm llvmlite locket loguru lxml lz4 mako mapclassify mapie markdown markdown2 markupsafe "
        "marshmallow matplotlib matplotlib-inline matplotlib-venn mercantile mesa meteostat metpy mistune mizani "
        "mlflow mlxtend mne mock modin more-itertools moto mplcursors mpld3 mplfinance mpmath msgpack msgspec "
        "multidict multiprocess murmurhash mypy nameparser narwhals natsort nbclient nbconvert nbformat nest-asyncio "
        "netcdf4 networkx neuralprophet nibabel nilearn nltk numba numexpr numpy numpy-financial numpyro oauthlib "
        "obspy odfpy omegaconf onnx onnxruntime openai openpyxl opentelemetry-api opt-einsum optuna orjson ortools "
        "osmnx osqp outcome packaging paddleocr palettable pandas pandas-datareader pandas-profiling pandas-ta "
        "pandasql pandera panel papermill param parameterized paramiko parsel parso partd passlib pathos pathspec "
        "patsy pbr pdf2image pdfplumber peft pendulum petl pexpect phonenumbers pika pillow pingouin pint pip plac "
        "platformdirs plotly plotnine pluggy pmdarima polars pooch portalocker preshed prettytable prince "
        "prometheus-client prompt-toolkit propcache prophet proto-plus protobuf psutil psycopg psycopg-binary "
        "psycopg2 psycopg2-binary ptyprocess pulp pure-eval py4j pyarrow pyasn1 pybind11 pycares pycaret pycocotools "
        "pycodestyle pycountry pycparser pycryptodome pydantic pydantic-core pydantic-settings pydeck pydicom pydot "
        "pyecharts pyfiglet pyflakes pygal pygments pygraphviz pyhdf pyinstaller pyjanitor pyjwt pylint pymannkendall "
        "pymc pymc3 pymongo pymysql pynndescent pyod pyomo pyopenssl pyparsing pypdf pypdf2 pyperclip pypng pyproj "
        "pyreadr pyreadstat pyro-ppl pyrsistent pysal pyspark pystac pystan pytesseract pytest pytest-asyncio "
        "pytest-cov pytest-mock python-dateutil python-docx python-dotenv python-louvain python-pptx "
        "pytorch-lightning pytorch-tabnet pytz pytz-deprecation-shim pyvis pyvista pyviz-comms pywavelets pyxlsb "
        "pyyaml pyzmq qrcode quandl quantstats rapidfuzz rasterio rasterstats ray rdflib rdkit readchar recordlinkage "
        "redis referencing regex reportlab requests requests-cache requests-oauthlib requests-toolbelt responses "
        "retry retrying rich rioxarray rouge-score rpy2 rsa rtree ruff ruptures s3fs s3transfer sacrebleu safetensors "
        "salib sas7bdat scanpy schedule scikit-image scikit-learn scikit-optimize scikit-posthocs scipy scrapy "
        "seaborn selenium sentence-transformers sentencepiece sentry-sdk setuptools shap shapely shortuuid simplejson "
        "simpy six skforecast sklearn-crfsuite sklearn-pandas sktime slack-sdk smart-open smmap sniffio snorkel "
        "sortedcontainers soundfile soupsieve spacy spglib sphinx splink sqlalchemy sqlglot sqlmodel sqlparse "
        "squarify srsly stable-baselines3 stack-data starlette statsforecast statsmodels stop-words streamlit stumpy "
        "summarytools surprise sweetviz sympy tables tabulate tblib tenacity tensorboard tensorflow tensorflow-cpu "
        "tensorflow-datasets tensorflow-probability termcolor terminado textblob textdistance textstat thefuzz thinc "
        "threadpoolctl thrift tifffile tiktoken tinycss2 tldextract tokenizers toml tomli tomlkit toolz torch "
        "torchaudio torchmetrics torchtext torchvision tornado tqdm traitlets traittypes transformers treelib trimesh "
        "trio tsfresh tslearn tweepy typer typing-extensions typing-inspect tzdata tzlocal ujson umap-learn "
        "uncertainties unidecode upsetplot uritemplate urllib3 uvicorn uvloop vadersentiment vaex validators "
        "vega-datasets venn virtualenv visions vtk wandb watchdog watchfiles wcwidth webcolors webencodings "
        "websockets werkzeug wheel wikipedia wordcloud wrapt xarray xgboost xlrd xlsxwriter xlwings xlwt xmltodict "
        "xxhash yarl ydata-profiling yellowbrick yfinance zarr zict zipp zstandard"
    ).split()
)
"""Popular distributions, by normalised name: to ask the index for one tells it nothing."""

KNOWN = POPULAR | {canonicalize_name(name) for name in DISTRIBUTIONS.values()}
"""Normalised names that code may ask the index for without a bound, see `allowance.py`."""


def distribution_for(module: str) -> str:
    """The distribution that provides a module.

    It takes the whole dotted name that the code imports. The name in a `ModuleNotFoundError` may be the first part
    only, such as `google` for `import google.cloud.storage`.

    Args:
        module: An import name, dotted or not.

    Returns:
        The distribution's name from the table, or else the module's top-level name, normalised.

    Raises:
        InstallRefused: The name is no module's, belongs to the standard library, is on no index, looks like a file of
            the person's own, or is an unknown part of a namespace. The message says which.
    """
    parts = _parts(module)
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    for prefix in prefixes:
        if prefix in ELSEWHERE:
            raise InstallRefused(f"The module {prefix} {ELSEWHERE[prefix]}.")
        if prefix in DISTRIBUTIONS:
            return DISTRIBUTIONS[prefix]
        if prefix in NAMESPACES:
            raise InstallRefused(
                f"{module} is part of {prefix}, which many distributions share.",
                mend="Ask for the distribution by its name on the index.",
            )
    _refuse_unpublished(parts[0])
    name = canonicalize_name(parts[0]).strip("-")
    if not name:
        raise InstallRefused(f"No distribution can be called {module[:80]!r}.")
    return name


def _parts(module: str) -> list[str]:
    """The parts of a dotted name, checked to be ASCII identifiers."""
    parts = module[: MAX_MODULE + 1].split(".")
    named = all(part.isascii() and part.isidentifier() and not keyword.iskeyword(part) for part in parts)
    if len(module) > MAX_MODULE or not named:
        raise InstallRefused(f"{module[:40]!r} is not the name of a module.")
    return parts


def _refuse_unpublished(top: str) -> None:
    """Refuse a top-level name for which no distribution must be guessed."""
    if top in PYTHON_2:
        raise InstallRefused(
            f"The module {top} belongs to Python 2's standard library; Python 3 has it by another name."
        )
    if top in REMOVED:
        raise InstallRefused(f"The module {top} was removed from Python's standard library; no package replaces it.")
    if top in {"_tkinter", "tkinter", "turtle", "idlelib"}:
        raise InstallRefused(
            f"The module {top} is part of Python's standard library and needs a display, which a sandbox hasn't."
        )
    if top in sys.stdlib_module_names:
        raise InstallRefused(
            f"The module {top} is part of Python's standard library; if it's missing, the sandbox's Python hasn't it."
        )
    if top in WINDOWS or top in MACOS:
        raise InstallRefused(f"The module {top} works on {'Windows' if top in WINDOWS else 'macOS'} only.")
    if top in OWN_FILES:
        raise InstallRefused(
            f"The module {top} looks like a file of your own, and a stranger's package has that name.",
            mend="Put its code into a cell, or ask for the distribution by its name on the index.",
        )
    if top.startswith("_"):
        raise InstallRefused(f"The module {top} is private; no distribution is named after it.")
