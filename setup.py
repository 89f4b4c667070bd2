"Packaging: every value lives in settings.ini, the file that nbdev reads too."
import shlex
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
config = ConfigParser(delimiters=['='])
config.read(here/'settings.ini', encoding='utf-8')
cfg = config['DEFAULT']
learn, smt, lab, dev = (shlex.split(cfg[f'{extra}_requirements']) for extra in ('learn', 'smt', 'lab', 'dev'))
readme = here/'README.md'

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'], keywords=cfg['keywords'].split(),
    author=cfg['author'], author_email=cfg['author_email'], url=cfg['git_url'], license='Apache-2.0',
    classifiers=[f'Programming Language :: Python :: {v}' for v in cfg['pythons'].split()] + ['Typing :: Typed'],
    long_description=readme.read_text(encoding='utf-8') if readme.exists() else '', long_description_content_type='text/markdown',
    packages=find_packages(include=['z80lit', 'z80lit.*']), include_package_data=True, zip_safe=False,
    python_requires=f">={cfg['min_python']}", install_requires=shlex.split(cfg['requirements']),
    extras_require={'learn': learn, 'smt': smt, 'lab': lab, 'dev': learn + smt + lab + dev},
    entry_points={'console_scripts': cfg['console_scripts'].split('\n'), 'nbdev': [f"{cfg['lib_path']}={cfg['lib_path']}._modidx:d"]},
)
